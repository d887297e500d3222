"""The stores of a read, by `path` and `brokerName`: each a directory and a broker's name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pocketmq.pipeline.errors import OptionError, near
from pocketmq.pipeline.stores.places import Place, place_of
from pocketmq.pipeline.stores.store_files import is_store


@dataclass(frozen=True, slots=True)
class Root:
    """Directory of a store to read, and its name in column `brokerName`."""

    path: Place
    broker_name: str


def find_roots(
    paths: Sequence[str],
    names: Sequence[str],
    source: str,
    storage: tuple[tuple[str, str], ...] = (),
) -> list[Root]:
    """The stores that options `path` and `brokerName` name.

    Raises:
        OptionError: A path is no store, or there are not as many names as paths.
    """
    if not paths:
        problem = "must be given: one or more store directories, separated by commas"
        raise OptionError(source, "path", problem)
    if names and len(names) != len(paths):
        problem = f"{len(names)} names for {len(paths)} paths"
        raise OptionError(source, "brokerName", problem)
    roots = []
    for number, text in enumerate(paths):
        try:
            path = place_of(text, storage)
            _check_store(path, text, source)
        except (OSError, ValueError) as exc:
            raise OptionError(source, "path", f"{text!r} cannot be read: {exc}") from exc
        roots.append(Root(path, names[number] if names else text))
    return roots


def roots_of_job(paths: Sequence[str]) -> list[Root]:
    """The stores that a job names, each of a broker that is called as its directory.

    Where two directories have one name, brokers are called as the paths.

    Raises:
        OptionError: A path is no store.
    """
    found = find_roots([path.strip() for path in paths], (), "store")
    names = [root.path.name for root in found]
    # Two stores of one directory name would become one broker, and their queues mix.
    if len(set(names)) < len(names):
        names = [str(root.path) for root in found]
    return [Root(root.path, name) for root, name in zip(found, names, strict=True)]


def _check_store(path: Place, text: str, source: str) -> None:
    if not path.is_folder():
        around = path.folder()
        # A mistyped name is the most frequent mistake, so similar names are proposed.
        siblings = [] if around is None else [each.name for each in around.entries()]
        meant = [str(around / name) for name in near(path.name, siblings)] if around else []
        raise OptionError(source, "path", f"there is no directory {text!r}", near=meant)
    if not is_store(path):
        # People often give a cluster's folder, which contains the stores.
        inner = [path / each.name for each in path.entries() if each.is_folder]
        stores = [str(each) for each in inner if is_store(each)][:3]
        problem = f"{text!r} is no store: it has neither commitlog nor consumequeue"
        raise OptionError(source, "path", problem, near=stores)
