"""Makes the description that package indexes show: README.md, a link into the repository put as the command that prints
the page. Called when Poolbook is packaged."""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

README = Path(__file__).resolve().parent.parent / "README.md"


def description(readme: str) -> str:
    """`readme` without links that hold in the repository alone: a page of docs/ is what ``poolbook doc`` prints."""
    readme = re.sub(r"\[[^]]*\]\(docs/(?:README\.md|examples/?)\)", "`poolbook doc`", readme)
    readme = re.sub(r"\[[^]]*\]\(docs/(?:examples/)?([^)#]*?)(?:\.md(?:#[^)]*)?)?\)", r"`poolbook doc \1`", readme)
    return re.sub(r"\[([^]]*)\]\((?!https?:)[^)]*\)", r"\1", readme)


class Description(MetadataHookInterface):
    """What hatchling asks for the field ``readme``."""

    def update(self, metadata: dict[str, object]) -> None:
        text = description(README.read_text(encoding="utf-8"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
