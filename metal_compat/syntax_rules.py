"""Rules of Metal's language that clang's C++ does not have, checked on clang's syntax tree of a program."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

__all__ = ["forbidden"]

Node = dict[str, Any]
# Why a kind of node is not Metal's C++14.
KINDS = {
    "LambdaExpr": "Metal has no lambda expressions",
    "DecompositionDecl": "structured bindings are C++17",
    "CXXFoldExpr": "fold expressions are C++17",
    "CXXThrowExpr": "Metal has no exceptions",
}
DECLARATIONS = {"VarDecl": "variable", "ParmVarDecl": "parameter", "FieldDecl": "member"}
FUNCTIONS = ("FunctionDecl", "CXXMethodDecl")


class Visit:
    """One walk over a tree. It keeps the file and the line, which the tree names only where they change."""

    def __init__(self) -> None:
        self.file, self.line = "", 0
        self.calls: dict[str, set[str]] = {}
        self.names: dict[str, tuple[str, str, int]] = {}
        self.problems: list[tuple[str, int, str]] = []

    def note(self, text: str) -> None:
        """Keep a problem at the current file and line."""
        self.problems.append((self.file, self.line, text))

    def move(self, place: Node) -> None:
        """Set the current file and line to those of a place."""
        for spot in (place.get("spellingLoc", {}), place.get("expansionLoc", {}), place):
            self.file = spot.get("presumedFile", spot.get("file", self.file))
            self.line = spot.get("presumedLine", spot.get("line", self.line))

    def walk(self, node: Node, function: str = "") -> None:
        """Check a node and the nodes below it."""
        self.move(node.get("loc", {}))
        self.move(node.get("range", {}).get("begin", {}))
        kind = node.get("kind", "")
        if node.get("isImplicit"):
            return
        if kind in KINDS:
            self.note(KINDS[kind])
        if kind == "IfStmt" and node.get("isConstexpr"):
            self.note("'if constexpr' is C++17")
        # A static constexpr member is inline without the word.
        is_member = node.get("storageClass") == "static" and node.get("constexpr")
        if kind == "VarDecl" and node.get("inline") and not is_member:
            self.note("inline variables are C++17")
        written = node.get("type", {})
        if kind in DECLARATIONS and "__generic" in written.get("desugaredQualType", written.get("qualType", "")):
            self.note(f"{DECLARATIONS[kind]} '{node.get('name', '')}' points to no address space")
        if kind in FUNCTIONS and "id" in node:
            function = node["id"]
            self.names[function] = (node.get("name", ""), self.file, self.line)
        called = node.get("referencedDecl", {})
        if kind == "DeclRefExpr" and called.get("kind") in FUNCTIONS:
            self.calls.setdefault(function, set()).add(called["id"])
        for child in node.get("inner", ()):
            self.walk(child, function)

    def recursion(self) -> None:
        """Keep a problem for every function that can call itself, directly or through others."""
        for start, (name, file, line) in self.names.items():
            reached: set[str] = set()
            todo = list(self.calls.get(start, ()))
            while todo:
                function = todo.pop()
                if function not in reached:
                    reached.add(function)
                    todo += self.calls.get(function, ())
            if start in reached:
                self.problems.append((file, line, f"function '{name}' calls itself: Metal has no recursion"))


def forbidden(text: str) -> Iterator[tuple[str, int, str]]:
    """Yield the file, the line and the reason for everything that Metal does not have.

    Parameters
    ----------
    text : str
        The JSON trees that clang wrote, one after the other.
    """
    visit, decoder, at = Visit(), json.JSONDecoder(), 0
    while (at := text.find("{", at)) >= 0:
        node, at = decoder.raw_decode(text, at)
        visit.walk(node)
    visit.recursion()
    yield from dict.fromkeys(visit.problems)
