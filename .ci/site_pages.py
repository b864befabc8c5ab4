"""Makes navigation, links out of docs/ and reference of the site: hooks of mkdocs.yml.

Navigation is the index docs/README.md: its headings are sections, its links their pages, in that order. A link to a
file of the repository beside docs/ becomes one to its page on the host. Pages of the reference are in no folder: they
are made from `REFERENCE` when the site is built, and filled from docstrings by mkdocstrings.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")

REFERENCE: dict[str, tuple[str, list[str]]] = {
    "reading": (
        "Reading a store",
        [
            "flintmq.open_store",
            "flintmq.StoreView",
            "flintmq.QueueInfo",
            "flintmq.StoredMessage",
            "flintmq.Messages",
            "flintmq.tabular.Tabular",
            "flintmq.inner_messages",
            "flintmq.Report",
            "flintmq.Damage",
            "flintmq.LogNote",
        ],
    ),
    "writing": (
        "Writing a store",
        [
            "flintmq.MessageStore",
            "flintmq.Message",
            "flintmq.PutResult",
            "flintmq.ColumnsResult",
            "flintmq.PutMessageStatus",
            "flintmq.PutRule",
            "flintmq.Half",
            "flintmq.Outcome",
            "flintmq.GetResult",
            "flintmq.GetBatchResult",
            "flintmq.RawResult",
            "flintmq.GetMessageStatus",
            "flintmq.TopicSettings",
            "flintmq.GroupSettings",
            "flintmq.Consumer",
            "flintmq.StoreConfig",
        ],
    ),
    "tables": (
        "Stores as tables",
        [
            "flintmq.scan_arrow",
            "flintmq.dataset",
            "flintmq.scan_polars",
            "flintmq.COLUMNS",
            "flintmq.SCHEMA",
            "flintmq.VIEW_SCHEMA",
            "flintmq.arrow.schema",
        ],
    ),
    "exports": (
        "Exports",
        ["flintmq.export", "flintmq.export_stream", "flintmq.partition_value", "flintmq.compare_table"],
    ),
    "tools": (
        "Tools",
        ["flintmq.verify", "flintmq.compare", "flintmq.copy_whole", "flintmq.copy_some", "flintmq.stats"],
    ),
    "metrics": ("Metrics", ["flintmq.store_metrics", "flintmq.engine_metrics"]),
    "broker": (
        "A broker",
        [
            "flintmq.broker.Broker",
            "flintmq.broker.BrokerStats",
            "flintmq.broker.testing.BrokerControl",
            "flintmq.broker.testing.ClientRequest",
        ],
    ),
    "spark": (
        "Spark",
        [
            "flintmq.spark.session",
            "flintmq.spark.door.JAR",
            "flintmq.spark.jobs.export.job.export",
            "flintmq.spark.jobs.replay.job.replay",
            "flintmq.spark.jobs.dispatch.job.dispatch",
            "flintmq.spark.jobs.stats.job.stats",
            "flintmq.spark.jobs.rebuild.rebuild",
            "flintmq.spark.jobs.verify.verify",
        ],
    ),
    "testing": (
        "Tools for tests",
        [
            "flintmq.testing.write_store",
            "flintmq.testing.damage",
            "flintmq.testing.strategies",
            "flintmq.testing.pytest_plugin",
            "flintmq.testing.contract",
        ],
    ),
    "errors": ("Errors", ["flintmq.errors"]),
}
"""Pages of the reference: file name -> title, and the modules and names whose docstrings it shows."""


def navigation(index: str) -> list[Any]:
    """Read the navigation out of the index.

    Pages before the first heading come first, then a section for each heading. A page that is named twice belongs where
    it is named first.
    """
    found: list[Any] = ["README.md"]
    seen = {"README.md"}
    before, *sections = re.split(r"^## ", index, flags=re.MULTILINE)
    for part in (before, *sections):
        links = [target for target, _ in LINK.findall(part) if target.endswith(".md") and not target.startswith("..")]
        pages = [page for page in dict.fromkeys(links) if page not in seen]
        seen.update(pages)
        found += pages if part is before else [{part.partition("\n")[0]: pages}]
    return found


def out_of_docs(markdown: str, page: str, home: str) -> str:
    """Mend links to directories of docs/, and to files beside it, which mkdocs cannot follow.

    Args:
        markdown: the text of a page.
        page: its path in docs/.
        home: the address of the repository.
    """

    def replaced(match: re.Match[str]) -> str:
        target, anchor = match[1], match[2] or ""
        goal = ((DOCS / page).parent / target).resolve()
        if not goal.is_relative_to(DOCS):
            kind = "tree" if goal.is_dir() else "blob"
            return f"]({home}/{kind}/main/{goal.relative_to(ROOT).as_posix()}{anchor})"
        return f"]({target.rstrip('/')}/README.md{anchor})" if goal.is_dir() else match[0]

    return LINK.sub(replaced, markdown)


def reference(title: str, names: list[str]) -> str:
    """Write a page of the reference: mkdocstrings puts the docstring of a name where `:::` is."""
    return "\n\n".join([f"# {title}", *(f"::: {name}" for name in names)]) + "\n"


def on_config(config: Any) -> Any:
    """Set the navigation."""
    pages = [f"reference/{file}.md" for file in REFERENCE]
    config.nav = [*navigation((DOCS / "README.md").read_text(encoding="utf-8")), {"Reference": pages}]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the reference, and each index.md.

    Here index.md is a page about the index. mkdocs would give it the address of README.md, so it gets another one.
    """
    from mkdocs.structure.files import File, InclusionLevel

    for path in DOCS.rglob("index.md"):
        page = path.relative_to(DOCS).as_posix()
        file = File(page, config.docs_dir, config.site_dir, config.use_directory_urls)
        file.inclusion, file.dest_uri = InclusionLevel.INCLUDED, page.replace("index.md", "index-file/index.html")
        files.append(file)
    for name, (title, shown) in REFERENCE.items():
        files.append(File.generated(config, f"reference/{name}.md", content=reference(title, shown)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Mend the links of a page that is a file."""
    if page.file.generated_by is not None:
        page.edit_url = None
        return markdown
    return out_of_docs(markdown, page.file.src_uri, config.repo_url.rstrip("/"))
