"""Of which class is the receiver of each attribute with a given name? Asked of mypy; prints JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from mypy import build
from mypy.main import process_options
from mypy.nodes import MemberExpr, Node, SuperExpr
from mypy.traverser import ExtendedTraverserVisitor
from mypy.types import (
    AnyType,
    CallableType,
    Instance,
    TupleType,
    Type,
    TypeType,
    TypeVarType,
    UnionType,
    get_proper_type,
)


def classes(type_: Type | None) -> tuple[set[str], bool]:
    """Full names of every class that a value is an instance of, and whether that is known."""
    found: set[str] = set()
    kind: Any = get_proper_type(type_) if type_ is not None else None
    if kind is None or isinstance(kind, AnyType):
        return found, False
    if isinstance(kind, TupleType):
        kind = kind.partial_fallback
    if isinstance(kind, UnionType):
        sure = True
        for item in kind.items:
            more, known = classes(item)
            found |= more
            sure = sure and known
        return found, sure
    if isinstance(kind, TypeVarType):
        return classes(kind.upper_bound)
    if isinstance(kind, TypeType):
        return classes(kind.item)
    if isinstance(kind, CallableType) and kind.is_type_obj():
        return {one.fullname for one in kind.type_object().mro}, True
    if isinstance(kind, Instance):
        return {one.fullname for one in kind.type.mro}, True
    return found, True


class Seeker(ExtendedTraverserVisitor):
    """Collects attributes of some names."""

    def __init__(self, wanted: dict[str, list[tuple[str, str]]], types: dict[Any, Type]) -> None:
        super().__init__()
        self.wanted, self.types = wanted, types
        self.nodes: list[Any] = []

    def visit(self, o: Node) -> bool:
        if isinstance(o, (MemberExpr, SuperExpr)) and o.name in self.wanted:
            self.nodes.append(o)
        return True


def main() -> None:
    """Read the names, ask, print."""
    wanted: dict[str, list[tuple[str, str]]] = {}
    for full, old, new in json.loads(sys.argv[1]):
        wanted.setdefault(old, []).append((full, new))
    files = subprocess.run(["git", "ls-files", "*.py"], capture_output=True, text=True, check=True).stdout.split()
    files = [one for one in files if not one.startswith(("experiments/moves", "docs")) and "golden/" not in one]
    sources, options = process_options(["--check-untyped-defs", *files])
    options.export_types = options.preserve_asts = True
    options.incremental = False
    result = build.build(sources, options)
    found, unsure = [], []
    subclasses: dict[str, list[str]] = {}
    for old, pairs in wanted.items():
        for full, _ in pairs:
            module, _, name = full.rpartition(".")
            if module not in result.files or full.rpartition(".")[2] not in result.files[module].names:
                raise SystemExit(f"{full}: is not there")
            known = []
            for tree in result.files.values():
                for symbol in tree.names.values():
                    node = symbol.node
                    if hasattr(node, "mro") and any(one.fullname == full for one in node.mro):  # type: ignore
                        known.append(node.fullname)  # type: ignore
            subclasses[f"{full}.{old}"] = sorted(set(known))
    for tree in result.files.values():
        if tree.path.startswith("/") or "site-packages" in tree.path or "typeshed" in tree.path:
            continue
        seeker = Seeker(wanted, result.types)
        tree.accept(seeker)
        for node in seeker.nodes:
            if isinstance(node, SuperExpr):
                unsure.append(f"{tree.path}:{node.line}: super().{node.name}")
                continue
            names, sure = classes(result.types.get(node.expr))
            news = {new for full, new in wanted[node.name] if full in names}
            if len(news) == 1:
                found.append([tree.path, node.end_line, node.end_column, node.name, news.pop()])
            elif not sure or news:
                unsure.append(f"{tree.path}:{node.line}: .{node.name}: {sorted(names)[:3]}")
    print(json.dumps({"found": found, "unsure": unsure, "classes": subclasses}))


main()
