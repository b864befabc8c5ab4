"""Python source as a tree with positions: which name means what, and how text is replaced in it.

`Source.scopes` resolves names as Python does, so that the local name of a module can be renamed without touching a
variable of the same name. Positions inside f-strings are right from Python 3.12 on, which this therefore needs.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field

if sys.version_info < (3, 12):  # the project runs on 3.11, this script does not
    sys.exit("experiments/moves needs Python 3.12 or newer: older ones do not tell positions inside f-strings")


class Stop(Exception):
    """Something that the tables do not cover: nothing is guessed."""


@dataclass
class Scope:
    """A block of Python: what it binds, and which names stand in it."""

    node: ast.AST
    parent: Scope | None
    bound: dict[str, list[ast.AST]] = field(default_factory=dict)
    outer: set[str] = field(default_factory=set)  # declared global or nonlocal
    uses: list[ast.Name] = field(default_factory=list)

    def bind(self, name: str, node: ast.AST) -> None:
        """Note a binding."""
        self.bound.setdefault(name, []).append(node)

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)


class _Scopes(ast.NodeVisitor):
    def __init__(self, tree: ast.Module) -> None:
        self.scope = Scope(tree, None)
        self.all = [self.scope]
        self.generic_visit(tree)

    def _inside(self, node: ast.AST, body: list[ast.AST], bind: list[tuple[str, ast.AST]]) -> None:
        scope = Scope(node, self.scope)
        self.all.append(scope)
        self.scope, before = scope, self.scope
        for name, where in bind:
            scope.bind(name, where)
        for child in body:
            self.visit(child)
        self.scope = before

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [one for one in (arguments.vararg, arguments.kwarg) if one]
        outside: list[ast.AST] = [*arguments.defaults, *(one for one in arguments.kw_defaults if one)]
        outside += [one.annotation for one in every if one.annotation]
        if not isinstance(node, ast.Lambda):
            self.scope.bind(node.name, node)
            outside += [*node.decorator_list, *([node.returns] if node.returns else [])]
        for child in outside:
            self.visit(child)
        body: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else list(node.body)
        self._inside(node, body, [(one.arg, one) for one in every])

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.scope.bind(node.name, node)
        for child in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(child)
        self._inside(node, list(node.body), [])

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        first, *others = node.generators
        self.visit(first.iter)
        body: list[ast.AST] = [first.target, *first.ifs, *others]
        body += [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self._inside(node, body, [])

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = _comprehension

    def visit_Name(self, node: ast.Name) -> None:
        self.scope.uses.append(node)
        if not isinstance(node.ctx, ast.Load):
            self.scope.bind(node.id, node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        scope = self.scope
        while isinstance(scope.node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)) and scope.parent:
            scope = scope.parent
        self.scope.uses.append(node.target)
        scope.bind(node.target.id, node.target)

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        self.scope.outer.update(node.names)

    visit_Nonlocal = visit_Global

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.scope.bind(node.name, node)
        self.generic_visit(node)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            self.scope.bind(alias.asname or alias.name.partition(".")[0], alias)

    visit_Import = visit_ImportFrom = _import

    def _capture(self, node: ast.MatchAs | ast.MatchStar) -> None:
        if node.name:
            self.scope.bind(node.name, node)
        self.generic_visit(node)

    visit_MatchAs = visit_MatchStar = _capture


class Source:
    """A file of Python, with replacements to be made at once at the end."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text = path, text
        try:
            self.tree = ast.parse(text)
        except SyntaxError as error:
            raise Stop(f"{path}: {error}") from error
        self._lines = [line.encode() for line in text.splitlines(keepends=True)]
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self._raw = text.encode()
        self._edits: list[tuple[int, int, bytes]] = []
        self._scopes: _Scopes | None = None

    @property
    def scopes(self) -> list[Scope]:
        """Every block, the module first."""
        self._scopes = self._scopes or _Scopes(self.tree)
        return self._scopes.all

    def resolve(self, scope: Scope, name: str) -> Scope | None:
        """The block that a name in a block belongs to; None where none binds it."""
        found: Scope | None = scope
        first = True
        while found is not None:
            if name in found.bound and name not in found.outer and (first or not found.is_class):
                return found
            found, first = found.parent, False
        return None

    def at(self, line: int, column: int) -> int:
        """The byte at a position of the syntax tree."""
        return self._starts[line - 1] + column

    def span(self, node: ast.AST) -> tuple[int, int]:
        """From which byte to which a node stands."""
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)  # type: ignore

    def segment(self, node: ast.AST) -> str:
        """A node's text."""
        begin, end = self.span(node)
        return self._raw[begin:end].decode()

    def line_of(self, node: ast.AST) -> str:
        """The line that a node begins in."""
        return self._lines[node.lineno - 1].decode()  # type: ignore[attr-defined]

    def replace(self, begin: int, end: int, text: str) -> None:
        """Put a text in the place of these bytes."""
        if self._raw[begin:end] != text.encode():
            self._edits.append((begin, end, text.encode()))

    def texts(self) -> Iterator[tuple[int, int, str]]:
        """Strings and comments with their places."""
        kinds = {tokenize.STRING, tokenize.COMMENT, tokenize.FSTRING_MIDDLE}
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in kinds:
                continue
            begin, end = self._place(*token.start), self._place(*token.end)
            if self._raw[begin:end].decode() == token.string:
                yield begin, end, token.string
            elif token.type != tokenize.FSTRING_MIDDLE or "{" not in self._raw[begin : end + 1].decode():
                raise Stop(f"{self.path}:{token.start[0]}: cannot tell where this text stands")

    def _place(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1].decode()[:column].encode())

    def result(self) -> str:
        """The text with every replacement made."""
        raw, last = self._raw, len(self._raw) + 1
        for begin, end, text in sorted(self._edits, key=lambda edit: edit[:2], reverse=True):
            if end > last:
                raise Stop(f"{self.path}: two replacements meet at byte {begin}: {text[:80]!r}")
            raw, last = raw[:begin] + text + raw[end:], begin
        return raw.decode()
