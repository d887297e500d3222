"""What a group wants of a topic, and the tag hash it is matched by (C-15, S-31).

A message has at most one tag, and its entry in the consume queue holds only a hash of the tag. So a
broker chooses messages without reading them. Different tags may have the same hash; therefore the
consumer compares the texts once more. A group that subscribes to `Aa || new`:

    tag     tags_code   the broker sends it   the listener gets it
    Aa      2112        yes                   yes
    BB      2112        yes                   no
    new     108960      yes                   yes
    paid    3433164     no                    no
    -       0           no                    no

`SubscriptionData.parse` reads the expression, `matches` is what the broker asks, and `matches_tag`
what the consumer asks. `*` wants all messages, those without a tag (-) too.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Self

import msgspec

from pocketmq.protocol.errors import SubscriptionError
from pocketmq.protocol.java import java_hash, to_int32
from pocketmq.protocol.scalars import Int32, Int64

SUB_ALL: Final = "*"
TAG: Final = "TAG"
SQL92: Final = "SQL92"

_MAX_CACHED_TAG: Final = 128


class SubscriptionData(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """One topic's subscription, as it stands in heartbeats and in the broker's registry.

    Also a wire body: `{"classFilterMode":..,"codeSet":[..],"expressionType":"TAG",...}`. Go clients
    write `codeSet` as strings, so read it with `strict=False`.
    """

    topic: str
    sub_string: str = SUB_ALL
    """The expression as the user wrote it."""
    tags_set: frozenset[str] = frozenset()
    code_set: frozenset[Int32] = frozenset()
    """Java hashes of `tags_set`."""
    sub_version: Int64 = 0
    """When it was made, in epoch ms; a newer one replaces an older one on the broker."""
    expression_type: str = TAG
    class_filter_mode: bool = False

    @classmethod
    def parse(
        cls,
        topic: str,
        expression: str | None,
        sub_version: int,
        *,
        expression_type: str = TAG,
        refuse_blanks: bool = False,
    ) -> Self:
        """Read `*`, nothing, or tags as `TagA || TagB`; SQL92 is kept as it is.

        Args:
            topic: what is subscribed to.
            expression: what is wanted of it.
            sub_version: now, in epoch ms.
            expression_type: `TAG` or `SQL92`.
            refuse_blanks: refuse an expression of blanks too, as our own clients do. RocketMQ's
                broker takes it: as a subscription to no tag, or as SQL that does not compile.

        Raises:
            SubscriptionError: the expression names no tag, or the type is unknown.
        """
        if expression_type not in (TAG, SQL92):
            raise SubscriptionError(topic, expression or "", f"type {expression_type!r} is unknown")
        if expression_type == SQL92:
            # An empty SQL expression would match everything, so it is refused. Blanks are left to
            # the broker's compiler: RocketMQ first looks whether it filters by SQL at all.
            if not expression or (refuse_blanks and not expression.strip()):
                raise SubscriptionError(topic, expression or "", "SQL92 needs an expression")
            return cls(
                topic=topic,
                sub_string=expression,
                sub_version=sub_version,
                expression_type=SQL92,
            )
        # An empty expression means the same as `*`.
        if not expression or expression == SUB_ALL:
            return cls(topic=topic, sub_version=sub_version)
        # Empty parts between separators are dropped, as in Java.
        parts = expression.split("||")
        tags = frozenset(tag for part in parts if (tag := part.strip()))
        # Java drops empty parts at the end before it counts, and blanks only after: `||` is an
        # error there, and ` ` is a subscription to no tag at all (B-55).
        if not tags and (refuse_blanks or not any(parts)):
            raise SubscriptionError(topic, expression, "it names no tag")
        return cls(
            topic=topic,
            sub_string=expression,
            tags_set=tags,
            code_set=frozenset(map(java_hash, tags)),
            sub_version=sub_version,
        )

    @property
    def subscribes_all(self) -> bool:
        """Whether every message is wanted, whatever its tag."""
        return self.sub_string == SUB_ALL or not self.sub_string

    def matches(self, code: int | None) -> bool:
        """Whether a message with this tag hash may be wanted; what the broker asks.

        Hashes collide, so the client looks again with `matches_tag`. An unknown hash (None: a
        periodic wake-up of a held pull, B-73) matches. SQL92 is not decided by hashes.
        """
        return (
            # A held pull that is woken by time has no hash: it is run again (B-73).
            code is None
            or self.sub_string == SUB_ALL
            or to_int32(code) in self.code_set
            or not self.sub_string
            or self.expression_type == SQL92
        )

    def matches_tag(self, tag: str | None) -> bool:
        """Whether a message with this tag is wanted; what the client asks (C-41).

        A message without a tag is not, when tags are named.
        """
        return not self.tags_set or tag in self.tags_set


Subscription = SubscriptionData
"""The name under which applications know it."""


def tags_code(tags: str | None) -> int:
    """What a consume queue entry holds of a message's tag: Java's hash, 0 for none (S-31).

    The whole string counts: several tags in it are not split.
    """
    if not tags:
        return 0
    # Tags repeat, so hashes are cached, except those of very long tags.
    return _hash_of_tag(tags) if len(tags) <= _MAX_CACHED_TAG else java_hash(tags)


_hash_of_tag = lru_cache(maxsize=4096)(java_hash)
