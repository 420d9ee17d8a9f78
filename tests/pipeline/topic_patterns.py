"""Patterns as people write them for subscribePattern, with the names of NAMES in which Java finds them."""

from __future__ import annotations

import random

NAMES = ["orders", "my-orders", "orders-eu", "Orders_2", "a.b.c", "xx", "x9", "__t", "-", "AbC", "aabb", "2026-01"]

# "*" means all of them.
FOUND: dict[str, str] = {
    "orders": "orders my-orders orders-eu",
    "^orders$": "orders",
    "orders-.*": "orders-eu",
    "^(orders|xx)$": "orders xx",
    ".*": "*",
    "": "*",
    "(?i)ORDERS": "orders my-orders orders-eu Orders_2",
    "(?i:o)rders_": "Orders_2",
    "x(?i)X|ABC": "xx AbC",
    "[a-z&&[^x]]+[0-9]": "",
    "^[a-z&&[^ox]]": "my-orders a.b.c aabb",
    "^[^a-z&&[^A]]": "Orders_2 __t - 2026-01 AbC",
    "[a-c&&b-d]": "a.b.c AbC aabb",
    r"^\p{Alpha}+$": "orders xx AbC aabb",
    r"^\p{Lu}": "Orders_2 AbC",
    r"^\P{L}": "__t - 2026-01",
    r"^\p{javaUpperCase}": "Orders_2 AbC",
    r"\p{Punct}$": "-",
    "(?<n>x)\\k<n>": "xx",
    r"(a)\1(b)\2": "aabb",
    r"(x)\12": "",
    r"\Qa.b\E": "a.b.c",
    r"\d": "Orders_2 x9 2026-01",
    r"^\W": "-",
    r"\b01\z": "2026-01",
    r"x*+x": "",
    r"(?>x*)x": "",
    r"x{2}": "xx",
    r"[\w&&\D]{6}": "orders my-orders orders-eu Orders_2",
    r"[]x]": "xx x9",
    r"[a-]b": "aabb",
    r"(?x) o r d  # a comment": "orders my-orders orders-eu",
    r"\x61\u0061\0142": "aabb",
    r"(?<!my-)orders": "orders orders-eu",
    r"^orders(?!-)": "orders",
    r"\h|\v|\R": "",
    r"[a\Q-b\E]{2}": "aabb",
    r"}|]": "",
    r"(?-i)x9": "x9",
    r"[[a-c][xy]]{2}": "xx aabb",
    r"(?i)[^a-z]": "Orders_2 my-orders orders-eu a.b.c x9 __t - 2026-01",
    r"(?i)(a)B\1": "",
    r"(?i)(a)\1": "aabb",
}
# Java refuses them too.
REFUSED = [
    "(",
    ")",
    "[",
    "[a",
    "a{",
    "{2}x",
    "*a",
    "a**",
    r"\y",
    "(?<n",
    "(?z)x",
    r"\p{Nothing}",
    "[z-a]",
    r"\k<n>",
    "\\",
]


def random_pattern(rng: random.Random, depth: int = 3) -> str:
    """Any pattern of the notation, more or less."""
    atoms = ["a", "x", "o", "-", "_", ".", "^", "$", r"\d", r"\W", r"\.", r"\p{Lower}", r"\P{Alnum}", "[a-c]", "[^x]"]
    atoms += ["[a-z&&[^o]]", "[A-Z[_-]]", r"[\w&&[^b]]", "(?i)", r"\b", "r", "d", "B", "[^a-c&&b-d]", r"[^\d]"]
    if depth:
        inner = "|".join(random_pattern(rng, depth - 1) for _ in range(rng.choice([1, 1, 2])))
        atoms += [f"({inner})", f"(?:{inner})", f"(?={inner})", f"(?i:{inner})", f"(?!{inner})", f"(?>{inner})"] * 2
    found = ""
    for _ in range(rng.randrange(1, 4)):
        atom = rng.choice(atoms)
        may_repeat = atom[0] not in "^$" and atom not in ("(?i)", r"\b") and not atom.startswith(("(?=", "(?!"))
        found += atom + (rng.choice(["", "", "", "*", "+", "?", "{2}", "*?", "++"]) if may_repeat else "")
    return found
