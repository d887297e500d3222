/** The ring of CONSISTENT_HASH: where members and queues stand on it. Pure. */

const VIRTUAL_NODES = 10;

const SHIFTS = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
const SINES = Array.from({ length: 64 }, (_, at) => Math.floor(Math.abs(Math.sin(at + 1)) * 2 ** 32) | 0);

/** The first four bytes of the MD5 digest (RFC 1321) of a text, as an unsigned big-endian number. */
export function md5Hash(text) {
  const bytes = new TextEncoder().encode(text);
  const padded = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, bytes.length * 8, true);
  const sums = [0x67452301, 0xefcdab89 | 0, 0x98badcfe | 0, 0x10325476];
  for (let block = 0; block < padded.length; block += 64) {
    let [a, b, c, d] = sums;
    for (let at = 0; at < 64; at += 1) {
      const round = at >> 4;
      const mixed = [(b & c) | (~b & d), (d & b) | (~d & c), b ^ c ^ d, c ^ (b | ~d)][round];
      const word = [at, 5 * at + 1, 3 * at + 5, 7 * at][round] % 16;
      const sum = (a + mixed + SINES[at] + view.getInt32(block + word * 4, true)) | 0;
      const by = SHIFTS[round][at % 4];
      [a, d, c, b] = [d, c, b, (b + ((sum << by) | (sum >>> (32 - by)))) | 0];
    }
    [a, b, c, d].forEach((each, at) => { sums[at] = (sums[at] + each) | 0; });
  }
  const first = new DataView(new ArrayBuffer(4));
  first.setInt32(0, sums[0], true);
  return first.getUint32(0);
}

/** Members' points and queues (`broker/queue`) with their owners; `part`: 0 to 1 around the ring. */
export function points(members, queues, topic) {
  const stands = new Map();
  for (const member of members) {
    for (let node = 0; node < VIRTUAL_NODES; node += 1) stands.set(md5Hash(`${member}-${node}`), member);
  }
  const ring = [...stands].sort((one, other) => one[0] - other[0]);
  const part = (hash) => hash / 2 ** 32;
  return {
    members: ring.map(([hash, member]) => ({ part: part(hash), member })),
    queues: queues.map((queue) => {
      const at = queue.lastIndexOf("/");
      const hash = md5Hash(`MessageQueue [topic=${topic}, brokerName=${queue.slice(0, at)}, queueId=${queue.slice(at + 1)}]`);
      const owner = (ring.find(([stand]) => stand >= hash) ?? ring[0])?.[1] ?? "";
      return { part: part(hash), queue: queue.replace("broker-", ""), owner };
    }),
  };
}
