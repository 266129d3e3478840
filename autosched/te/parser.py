"""The grammar of the text form, by recursive descent. Evaluates nothing, knows no files.

program   = statement { ";" statement } [ ";" ]
statement = NAME "[" [ index { "," index } ] "]" ( "=" | "+=" | "max=" ) value
value     = product { ( "+" | "-" ) product }
product   = unary { ( "*" | "/" ) unary }
unary     = "-" unary | atom
atom      = NUMBER | "(" value ")" | FUNCTION "(" value { "," value } ")"
          | NAME "[" [ index { "," index } ] "]"
index     = a value of axes and integers, with + - * and parentheses alone
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from autosched.te import function
from autosched.te.error import IllegalExpression
from autosched.te.lexer import Token, tokens
from autosched.te.name import check_name
from autosched.te.position import Position, axis_position, new_axis, position
from autosched.te.scatter import left_side
from autosched.te.tensor import Source
from autosched.te.value import Value, call, cast, value
from search_space.dtype import DTYPES
from search_space.expr import Affine
from search_space.workload import Axis, AxisKind, Reducer

#: Parentheses, function calls and signs inside one another.
DEEPEST = 40
#: The sign of each kind of statement and the name of its reducer.
REDUCERS: dict[str, Reducer | None] = {"+=": "sum", "max=": "max", "=": None}

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Statement:
    """``name[axes] sign body``, where ``name`` stands at ``offset`` of the text.

    ``places`` are the positions on the left where one is not a plain axis; else None.
    """

    name: str
    axes: tuple[Axis, ...]
    sign: str
    body: Value
    offset: int
    places: tuple[Affine, ...] | None = None


@dataclass
class Parser:
    """Reads one text from left to right. ``path`` is the argument that errors name."""

    text: str
    path: tuple[str | int, ...]
    sizes: Mapping[str, int]
    tensors: Mapping[str, Source]
    #: Axes that the values at hand may use; others of ``sizes`` are reduced over.
    left: tuple[Axis, ...] = ()
    reduces: bool = False
    on_left: bool = False
    used: set[str] = field(default_factory=set)
    _place: int = 0
    _depth: int = 0

    def __post_init__(self) -> None:
        self._tokens = tokens(self.text, self.path)

    @property
    def ahead(self) -> Token:
        """The next word."""
        return self._tokens[self._place]

    def at_end(self) -> bool:
        """Tell whether nothing is left."""
        return self.ahead.kind == "end"

    def statement(self) -> Statement:
        """Read one statement, up to and with its ";"."""
        name = self._name("a tensor's name")
        with self._at(name.offset):
            check_name(name.text, "tensor")
            if name.text in self.tensors or name.text in self.sizes:
                raise IllegalExpression(f"{name.text!r} already names another thing")
        self._expect("[")
        self.on_left = True
        positions = self._list("]", self._index)
        self.on_left = False
        with self._at(name.offset):
            forms, self.left = left_side(name.text, positions)
        plain = all(form.single is not None for form in forms)
        sign = self._expect(*REDUCERS)
        self.reduces = sign.text != "="
        if sign.text == "max=" and not plain:
            raise IllegalExpression("at affine positions only += reduces", self.path, sign.offset)
        body = self.value()
        if not self.at_end():
            self._expect(";")
        places = None if plain else forms
        return Statement(name.text, self.left, sign.text, body, name.offset, places)

    def value(self) -> Value:
        """Read a value."""
        return self._chain(("+", "-"), lambda: self._chain(("*", "/"), self._unary))

    def end(self) -> None:
        """Refuse anything that is left."""
        if not self.at_end():
            raise self._unexpected("the end")

    def _chain(self, signs: tuple[str, ...], operand: Callable[[], Value]) -> Value:
        names = {"+": "add", "-": "sub", "*": "mul", "/": "div"}
        result = operand()
        while self.ahead.kind == "sign" and self.ahead.text in signs:
            sign = self._next()
            right = operand()
            with self._at(sign.offset):
                result = call(names[sign.text], result, right)
        return result

    def _unary(self) -> Value:
        if not self._accept("-"):
            return self._atom()
        if self.ahead.kind == "number":
            return self._number(negative=True)
        with self._deeper():
            return -self._unary()

    def _atom(self) -> Value:
        token = self.ahead
        if token.kind == "number":
            return self._number()
        if self._accept("("):
            with self._deeper():
                inner = self.value()
            self._expect(")")
            return inner
        name = self._name("a value")
        if self._accept("("):
            return self._call(name)
        if self._accept("["):
            return self._read(name)
        with self._at(name.offset):
            if name.text in self.sizes:
                value(axis_position(Axis(name.text, 1, "spatial")))
            raise IllegalExpression(f"{name.text!r} is not read: write {name.text}[...]")

    def _number(self, *, negative: bool = False) -> Value:
        token = self._next()
        with self._at(token.offset):
            return value(-float(token.text) if negative else float(token.text))

    def _call(self, name: Token) -> Value:
        with self._deeper():
            args = self._list(")", self.value)
        with self._at(name.offset):
            if name.text in DTYPES and len(args) == 1:
                return cast(args[0], name.text)
            if name.text not in function.BY_NAME:
                raise IllegalExpression(
                    f"function {name.text[:40]!r} is unknown; known: "
                    f"{', '.join((*function.BY_NAME, *DTYPES))}"
                )
            try:
                return function.BY_NAME[name.text](*args)
            except TypeError as error:
                raise IllegalExpression(
                    f"{name.text} does not take {len(args)} argument(s)"
                ) from error

    def _read(self, name: Token) -> Value:
        index = self._list("]", self._index)
        with self._at(name.offset):
            if name.text not in self.tensors:
                raise IllegalExpression(
                    f"tensor {name.text[:40]!r} is unknown; known: {', '.join(self.tensors)}"
                )
            return self.tensors[name.text][index]

    def _index(self) -> Position:
        result = self._index_product()
        while self.ahead.text in ("+", "-"):
            sign = self._next()
            right = self._index_product()
            with self._at(sign.offset):
                result = result + right if sign.text == "+" else result - right
        return result

    def _index_product(self) -> Position:
        result = self._index_atom()
        while self.ahead.text in ("*", "/"):
            sign = self._next()
            with self._at(sign.offset):
                if sign.text == "/":
                    raise IllegalExpression("an index is affine: + - * by integers, not '/'")
            right = self._index_atom()
            with self._at(sign.offset):
                result = result * right
        return result

    def _index_atom(self) -> Position:
        if self._accept("-"):
            with self._deeper():
                return -self._index_atom()
        if self._accept("("):
            with self._deeper():
                inner = self._index()
            self._expect(")")
            return inner
        token = self._next() if self.ahead.kind == "number" else self._name("an axis")
        with self._at(token.offset):
            if token.kind == "name":
                return axis_position(self._axis(token))
            if not token.text.isdigit():
                raise IllegalExpression(f"an index is an integer, not {token.text[:40]!r}")
            return position(int(token.text[:20]))

    def _axis(self, token: Token) -> Axis:
        if self.on_left:
            return self._known_axis(token, "spatial")
        for axis in self.left:
            if axis.name == token.text:
                return axis
        axis = self._known_axis(token, "reduction")
        if not self.reduces:
            raise IllegalExpression(
                f"axis {axis.name!r} is not on the left, and only += and max= reduce"
            )
        return axis

    def _known_axis(self, token: Token, kind: AxisKind) -> Axis:
        if token.text not in self.sizes:
            raise IllegalExpression(f"axis {token.text[:40]!r} has no size")
        self.used.add(token.text)
        return new_axis(token.text, self.sizes[token.text], kind)

    def _list(self, closing: str, item: Callable[[], Item]) -> tuple[Item, ...]:
        if self._accept(closing):
            return ()
        items = [item()]
        while self._expect(",", closing).text == ",":
            items.append(item())
        return tuple(items)

    def _next(self) -> Token:
        token = self.ahead
        self._place += token.kind != "end"
        return token

    def _accept(self, sign: str) -> bool:
        found = self.ahead.kind == "sign" and self.ahead.text == sign
        self._place += found
        return found

    def _expect(self, *signs: str) -> Token:
        if self.ahead.kind != "sign" or self.ahead.text not in signs:
            raise self._unexpected(" or ".join(map(repr, signs)))
        return self._next()

    def _name(self, wish: str) -> Token:
        if self.ahead.kind != "name":
            raise self._unexpected(wish)
        return self._next()

    def _unexpected(self, wish: str) -> IllegalExpression:
        return IllegalExpression(
            f"{wish} is expected, not {self.ahead}", self.path, self.ahead.offset
        )

    @contextmanager
    def _at(self, offset: int) -> Iterator[None]:
        """Give errors of what is built the place in the text that it came from."""
        try:
            yield
        except IllegalExpression as error:
            if error.offset is not None:
                raise
            raise IllegalExpression(error.fact, self.path, offset) from error

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        if self._depth >= DEEPEST:
            raise IllegalExpression(
                f"the text is nested more than {DEEPEST} deep", self.path, self.ahead.offset
            )
        self._depth += 1
        yield
        self._depth -= 1
