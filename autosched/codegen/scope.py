"""What a kernel under construction holds: its lines, names, parameters and blocks in registers."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import product

from autosched.codegen.address import groups_of, wrapped_axis
from autosched.codegen.text import Lines, Names, expand, index_text
from search_space import access
from search_space.expr import Read
from search_space.index import Atom, Index, Quotient, Remainder, Var, axes_of, interval
from search_space.nest import Nest
from search_space.program import Argument, DescriptorArgument, PointerArgument

#: The tile groups that the dimensions of a block stand for, in order.
Space = tuple[int, ...]

#: Offsets past this need 64 bits.
LARGEST_INT32 = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Block:
    """A value in registers: its name and the tile groups of its dimensions."""

    name: str
    space: Space


@dataclass
class Scope:
    """The state of one kernel's text."""

    nest: Nest
    lines: Lines = field(default_factory=Lines)
    parameters: dict[str, Argument] = field(default_factory=dict)
    #: Blocks by the intermediate tensor that they hold.
    blocks: dict[str, Block] = field(default_factory=dict)
    names: Names = field(init=False)
    #: Vectors along tile axes, which descriptors often do without.
    ranges: set[str] = field(default_factory=set)
    #: Axes that the grid or the serial loops at hand decide, by what they were fused into.
    scalars: dict[Atom, str] = field(default_factory=dict)
    #: What tells the blocks of one of several copies from those of the others.
    suffix: str = ""
    _vectors: ChainMap[Index, str] = field(default_factory=ChainMap)
    _written: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = Names([*self.nest.extents, *self.nest.tensor])

    def assign(self, wish: str, text: str) -> str:
        """Write ``name = text`` under a free name like ``wish``; return the name."""
        name = self.names.fresh(wish)
        self.lines.add(f"{name} = {text}")
        return name

    def assign_once(self, wish: str, text: str) -> str:
        """Write ``name = text`` unless that has been written; return the name. Not in a loop."""
        if text not in self._written:
            self._written[text] = self.assign(wish, text)
        return self._written[text]

    def block_name(self, tensor: str) -> str:
        """Return the name of the block that holds an intermediate tensor."""
        return self.names.fresh(f"{tensor}{self.suffix}") if self.suffix else tensor

    def copies(self) -> tuple[Scope, ...]:
        """Return a scope for every step of the spatial axes that are unrolled: they write to one
        text, and hold blocks of their own."""
        nest = self.nest
        if not nest.repeated:
            return (self,)
        copies = []
        steps = product(*(range(nest.extents[axis]) for axis in nest.repeated))
        for number, step in enumerate(steps):
            at = {a: Index((), value) for a, value in zip(nest.repeated, step, strict=True)}
            scope = copy(self)
            scope.nest = replace(nest, definitions={**nest.definitions, **at})
            scope.blocks, scope.suffix = {}, f"_{number}"
            copies.append(scope)
        return tuple(copies)

    def range(self, axis: str, text: str) -> None:
        """Write a tile axis as a vector; it is left out of the kernel if nothing reads it."""
        self.ranges.add(axis)
        self.lines.add(f"{axis} = {text}")

    def pointer(self, tensor: str) -> str:
        """Return the parameter that holds the address of ``tensor``."""
        self.parameters.setdefault(tensor, PointerArgument(self.nest.buffer(tensor)))
        return tensor

    def descriptor(self, nest: Nest, read: Read) -> str:
        """Return the parameter that holds the descriptor for the block of ``read``."""
        tensor = nest.tensor[read.tensor]
        box = access.box(nest, read)
        argument = DescriptorArgument(nest.buffer(tensor.name), tensor.shape, tensor.strides, box)
        for name, known in self.parameters.items():
            if known == argument:
                return name
        name = self.names.fresh(f"{tensor.name}_desc")
        self.parameters[name] = argument
        return name

    def vector(self, nest: Nest, index: Index) -> str:
        """Return a name or short text for an index along one tile group, writing it if long.

        An index that is an axis of the computation, whole or wrapped, is named after it.
        """
        if index in self._vectors:
            return self._vectors[index]
        axis = next((a for a in nest.definitions if nest.resolve(a) == index), None)
        alone = _divided_atom(index)
        if axis is not None and not index_text(index, str).isidentifier():
            text = self._divided(nest, alone) if alone else self._summed(nest, index)
            name = self._declare(axis, text)
        elif alone:
            text = self._divided(nest, alone)
            around = wrapped_axis(nest, index)
            wish = f"{around}_wrapped" if around else f"{text.split()[0].strip('(')}_part"
            name = self.assign(wish, text)
        else:
            name = self._summed(nest, index)
        self._vectors[index] = name
        return name

    def _summed(self, nest: Nest, index: Index) -> str:
        """Return a sum of axes, and of quotients and remainders that have been written."""
        divided = (atom for atom, _ in index.terms if not isinstance(atom, Var))
        names: dict[Atom, str] = {a: self.vector(nest, Index(((a, 1),))) for a in divided}
        return index_text(index, str, names=names)

    def _divided(self, nest: Nest, atom: Quotient | Remainder) -> str:
        """Return a quotient or a remainder of a vector that has been written."""
        within = atom.value.terms[0][0]
        if isinstance(within, Quotient) and atom.value == Index(((within, 1),)):
            whole = self._divided(nest, within)
        else:
            whole = self.vector(nest, atom.value)
            whole = whole if whole.isidentifier() else f"({whole})"
        return f"{whole} {'//' if isinstance(atom, Quotient) else '%'} {atom.divisor}"

    @contextmanager
    def loop(self, axis: str, header: str) -> Iterator[None]:
        """Open a serial loop: what is written within is known within alone."""
        with self.lines.block(header):
            named = self._name_scalars({axis})
            self._vectors.maps.insert(0, {})
            yield
            self._vectors.maps.pop(0)
            for atom in named:
                del self.scalars[atom]

    def name_grid(self) -> None:
        """Write the axes that those of the grid were fused of."""
        self._name_scalars(self.nest.grid)

    def _name_scalars(self, deciding: Collection[str]) -> list[Atom]:
        """Write the axes that ``deciding`` axes were fused of, and return what is named so."""
        named = list[Atom]()
        for axis in self.nest.definitions:
            index = self.nest.resolve(axis)
            atom = _divided_atom(index)
            if atom and atom not in self.scalars and set(axes_of(index)) <= set(deciding):
                name = self.names.fresh(axis) if axis in self.ranges else axis
                self.range(name, index_text(index, str, names=self.scalars))
                self.scalars[atom] = name
                named.append(atom)
        return named

    def _declare(self, axis: str, text: str) -> str:
        """Write an axis of the computation under its own name, which no leaf bears."""
        if axis in self._vectors.values():
            return self.assign(f"{axis}_part", text)
        self.lines.add(f"{axis} = {text}")
        return axis


def _divided_atom(index: Index) -> Quotient | Remainder | None:
    """Return the quotient or the remainder that ``index`` is, and nothing else."""
    atom = index.terms[0][0] if index.terms else None
    is_whole = isinstance(atom, Quotient | Remainder) and index == Index(((atom, 1),))
    return atom if is_whole and not isinstance(atom, Var) else None


def spelled(nest: Nest, space: Space) -> Callable[[str], str]:
    """Return how axes are written where the value spans ``space``."""

    def spell(name: str) -> str:
        group = nest.group_of(name)
        return name if group is None else expand(name, space.index(group), len(space))

    return spell


def scalar_text(scope: Scope, nest: Nest, index: Index) -> str:
    """Write an index without tile axes, in 64 bits where its range needs them."""
    return index_text(index, str, wide=is_wide(nest, index), names=scope.scalars)


def is_wide(nest: Nest, index: Index) -> bool:
    """Whether values of ``index`` pass 32 bits."""
    low, high = interval(index, nest.extents)
    return max(-low, high) > LARGEST_INT32


def scalar_part(nest: Nest, index: Index) -> Index:
    """Return the terms of ``index`` that hold no tile axis, and its constant."""
    terms = tuple(t for t in index.terms if not groups_of(nest, Index((t,))))
    return Index(terms, index.constant)


def placed(block: Block, space: Space) -> str:
    """Return the text of ``block`` broadcast into ``space``."""
    if not block.space or block.space == space:
        return block.name
    marks = ", ".join(":" if group in block.space else "None" for group in space)
    return f"{block.name}[{marks}]"
