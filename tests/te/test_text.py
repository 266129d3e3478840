"""The text form: what it means, that it comes back, and where it is wrong."""

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autosched import te
from autosched.te import printer, text
from autosched.te.form import Form, Output, Stored
from autosched.te.function import BY_NAME
from autosched.te.operators import matmul
from autosched.te.value import Value
from search_space.workload import Workload

SIZES = {"i": 4, "j": 6, "k": 8}
INPUTS = {"A": Stored((4, 8), "float16"), "B": Stored((8, 6), "float16")}


def test_a_convolution_reads_past_the_edge_of_its_input() -> None:
    work = text.parse(
        "Y[n,y,x,o] += X[n, y*2+r-1, x*2+s-1, c] * W[o,r,s,c]",
        {"n": 16, "y": 28, "x": 28, "o": 256, "r": 3, "s": 3, "c": 128},
        {
            "X": Stored((16, 56, 56, 128), "float16"),
            "W": Stored((256, 3, 3, 128), "float16"),
            "B": Stored((256,), "float16"),
        },
        "relu(Y[n,y,x,o] + B[o])",
    )
    assert work.canonical == (
        "axes i0=16:spatial i1=28:spatial i2=28:spatial i3=256:spatial "
        "i4=3:reduction i5=3:reduction i6=128:reduction\n"
        "input T0 float16 shape=[16,56,56,128] strides=[401408,7168,128,1] align=16\n"
        "input T1 float16 shape=[256,3,3,128] strides=[1152,384,128,1] align=16\n"
        "input T2 float16 shape=[256] strides=[1] align=16\n"
        "intermediate T3 float32 shape=[16,28,28,256] strides=[200704,7168,256,1] align=16\n"
        "output T4 float16 shape=[16,28,28,256] strides=[200704,7168,256,1] align=16\n"
        "T3[i0,i1,i2,i3] sum= mul(T0[i0,2*i1+i4+-1,2*i2+i5+-1,i6],T1[i3,i4,i5,i6])\n"
        "T4[i0,i1,i2,i3] = max(add(T3[i0,i1,i2,i3],T2[i3]),0.0)\n"
        "precision ieee\n"
    )


def test_maxima_and_several_statements() -> None:
    work = text.parse(
        "M[i] max= X[i,r]; S[i] += exp(X[i,r] - M[i]); Y[i,j] = exp(X[i,j] - M[i]) / S[i];",
        {"i": 4, "j": 8, "r": 8},
        {"X": Stored((4, 8), "float16")},
    )
    assert [(stage.output, stage.reducer) for stage in work.stages] == [
        ("M", "max"),
        ("S", "sum"),
        ("Y", None),
    ]
    assert work.output.dtype == "float16"


def test_operators_bind_as_they_do_everywhere() -> None:
    def tree(expr: str) -> str:
        inputs = {name: Stored((), "float32") for name in ("a", "b", "c")}
        return text.parse(f"y[] = {expr}", {}, inputs).canonical.splitlines()[-2]

    assert tree("a[] - b[] - c[]") == "T3[] = sub(sub(T0[],T1[]),T2[])"
    assert tree("a[] - (b[] - c[])") == "T3[] = sub(T0[],sub(T1[],T2[]))"
    assert tree("a[] + b[] * c[]") == "T3[] = add(T0[],mul(T1[],T2[]))"
    assert tree("-a[] * b[] / c[]") == "T3[] = div(mul(neg(T0[]),T1[]),T2[])"
    assert tree("a[] * -2 + b[] * c[]*.5e1") == (
        "T3[] = add(mul(T0[],-2.0),mul(mul(T1[],T2[]),5.0))"
    )


@pytest.mark.parametrize(
    ("dtype", "output", "epilogue", "stored"),
    [
        ("float16", None, None, "float16"),
        ("int8", None, None, "int32"),
        ("float8_e4m3", None, None, "bfloat16"),
        ("float16", "float32", None, "float32"),
        ("float16", None, "bfloat16(C[i,j])", "bfloat16"),
    ],
)
def test_dtype_of_the_output(
    dtype: str, output: str | None, epilogue: str | None, stored: str
) -> None:
    inputs = {"A": Stored((4, 8), dtype), "B": Stored((8, 6), dtype)}
    expr = "C[i,j] += A[i,k] * B[k,j]"
    work = text.parse(expr, SIZES, inputs, epilogue, output=Output(output))
    assert work.output.dtype == stored


def test_format_prints_the_lines_of_a_spec() -> None:
    work = matmul(4, 6, 8, dtype="float32", trans_b=True, precision="tf32", epilogue=["gelu"])
    assert text.format(te.stored(work, "B", strides=(16, 1), alignment_bytes=8)) == (
        "expr: C[i,j] += A[i,k] * B[j,k]\n"
        "sizes: {i: 4, j: 6, k: 8}\n"
        "inputs: {A: {shape: [4, 8], dtype: float32}, "
        "B: {shape: [6, 8], dtype: float32, strides: [16, 1], alignment_bytes: 8}}\n"
        'epilogue: "gelu(C[i,j])"\n'
        "output: {dtype: float32}\n"
        "precision: tf32\n"
    )


def wrong(expr: str, epilogue: str | None = None, **fields: object) -> te.IllegalExpression:
    form = Form(expr, SIZES, INPUTS, epilogue)
    form = Form(**{**vars(form), **fields})  # type: ignore[arg-type]
    with pytest.raises(te.IllegalExpression) as caught:
        text.read(form)
    return caught.value


@pytest.mark.parametrize(
    ("expr", "offset", "fact"),
    [
        ("", 0, "a tensor's name is expected, not the end"),
        ("C", 1, "'[' is expected, not the end"),
        ("C[i,j]", 6, "'+=' or 'max=' or '=' is expected, not the end"),
        ("C[i,j] += ", 10, "a value is expected, not the end"),
        ("C[i,j] += A[i,k] * B[k,j] A", 26, "';' is expected, not 'A'"),
        ("C[i,j] += A[i,k] * D[k,j]", 19, "tensor 'D' is unknown; known: A, B"),
        ("C[i,j] += A[i,k] * B[k]", 19, "'B' has 2 dimension(s), but 1 index(es) are given"),
        ("C[i,j] += A[i,k] * B[j,k]", 19, "axis 'j' has extent 6, but dimension 0 of 'B' has 8"),
        ("C[i,j] += A[i,l] * B[k,j]", 14, "axis 'l' has no size"),
        ("C[i,j] += A[i,k*j]", 15, "an index is affine: no product of the axes k and j"),
        ("C[i,j] += A[i,k/2]", 15, "an index is affine: + - * by integers, not '/'"),
        ("C[i,j] += A[i,k//2]", 15, "an index is affine: + - * by integers, not '/'"),
        ("C[i,j] += A[i,k%2]", 15, "character '%' has no meaning here"),
        ("C[i,j] += A[i,1.5]", 14, "an index is an integer, not '1.5'"),
        ("C[i,j] += A[i,A[i,k]]", 14, "axis 'A' has no size"),
        ("C[i,j] += A[i,99999999999999999999]", 14, "an index is 99999999999999999999, past"),
        ("C[0,j] += A[i,k]", 0, "one axis or two"),
        ("C[i,i] += A[i,k]", 0, "stands twice on the left"),
        ("C[i,j] = A[i,k]", 13, "axis 'k' is not on the left, and only += and max= reduce"),
        ("C[i,k] += A[i,k]", 0, "every axis is on the left, so there is nothing for += to"),
        ("A[i,j] += B[k,j]", 0, "'A' already names another thing"),
        ("for[i,j] += B[k,j]", 0, "tensor 'for' is a reserved word"),
        ("_C[i,j] += B[k,j]", 0, "tensor '_C' is not a plain name"),
        ("C[i,j] += k * B[k,j]", 10, "axis 'k' is used as a value"),
        ("C[i,j] += A * B[k,j]", 10, "'A' is not read: write A[...]"),
        ("C[i,j] += foo(B[k,j])", 10, "function 'foo' is unknown; known: add"),
        ("C[i,j] += exp(B[k,j], 2)", 10, "exp does not take 2 argument(s)"),
        ("C[i,j] += exp()", 10, "exp does not take 0 argument(s)"),
        ("C[i,j] += eval(B[k,j])", 10, "function 'eval' is unknown"),
        ("C[i,j] += int8(B[k,j])", 10, "a float is not cast to int8"),
        ("C[i,j] += B[k,j] * 1e999", 19, "a constant is a finite number"),
        ("C[i,j] += B[k,j] ** 2", 18, "a value is expected, not '*'"),
        ("C[i,j] += B[k,j] if 1", 17, "';' is expected, not 'if'"),
        ("C[i,j] += B[k,j].T", 16, "character '.' has no meaning here"),
        ("C[i,j] += Ä[k,j]", 10, "character 'Ä' has no meaning here"),
        ("C[i,j] += 'x'", 10, 'character "\'" has no meaning here'),
        ("C[i,j] -= A[i,k]", 7, "'+=' or 'max=' or '=' is expected, not '-'"),
        ("C[i,j] += " + "(" * 41, 51, "the text is nested more than 40 deep"),
        ("C[i,j] += " + "-" * 5000 + "A[i,k]", 51, "the text is nested more than 40 deep"),
        ("C[i,j] += A[" + "-" * 5000 + "i,k]", 53, "the text is nested more than 40 deep"),
        ("C[i,j] += " + "A[i,k]+" * 300 + "A[i,k]", 709, "at most 10000 nodes, 100 deep"),
    ],
)
def test_errors_have_a_place_in_the_text(expr: str, offset: int, fact: str) -> None:
    error = wrong(expr)
    assert fact in error.fact
    assert (error.path, error.offset) == (("expr",), offset)


def test_errors_of_an_epilogue_are_its_own() -> None:
    error = wrong("C[i,j] += A[i,k] * B[k,j]", "C[i,j] + D[j]")
    assert (error.path, error.offset) == (("epilogue",), 9)
    error = wrong("C[i,j] += A[i,k] * B[k,j]", "C[i,k]")
    assert error.fact == "axis 'k' is not on the left, and only += and max= reduce"
    assert str(wrong("C[i,j] += A[i,k] * B[k,j]", "A[i,0] + 1")) == "epilogue: 'C' is not read"
    assert wrong("C[i,j] += A[i,k] * B[k,j]", "C[i,j] C").fact == "the end is expected, not 'C'"


@pytest.mark.parametrize(
    ("fields", "path", "fact"),
    [
        ({"sizes": {**SIZES, "k": 0}}, ("sizes", "k"), "axis 'k' has extent 0"),
        ({"sizes": {**SIZES, "k": True}}, ("sizes", "k"), "is an integer, not 'True'"),
        ({"sizes": {**SIZES, "l": 2}}, ("sizes", "l"), "axis 'l' is not used"),
        ({"sizes": {**SIZES, "a b": 2}}, ("sizes", "a b"), "not a plain name"),
        ({"inputs": {**INPUTS, "D": Stored((2,), "int8")}}, ("inputs", "D"), "is not read"),
        ({"inputs": {**INPUTS, "i": Stored((2,), "int8")}}, ("inputs", "i"), "is an axis too"),
        (
            {"inputs": {**INPUTS, "B": Stored((8, 6), "half")}},
            ("inputs", "B", "dtype"),
            "dtype 'half' is unknown",
        ),
        (
            {"inputs": {**INPUTS, "B": Stored((8, 6), "float16", (6,))}},
            ("inputs", "B", "strides"),
            "2 dimension(s) but 1 stride(s)",
        ),
        ({"output": Output("half")}, ("output", "dtype"), "dtype 'half' is unknown"),
        ({"output": Output(strides=(0, 0))}, ("output", "strides"), "share an element"),
        ({"precision": "tf32"}, ("precision",), "tf32 is about products of float32"),
    ],
)
def test_errors_of_other_fields_name_them(
    fields: dict[str, object], path: tuple[str, ...], fact: str
) -> None:
    error = wrong("C[i,j] += A[i,k] * B[k,j]", **fields)
    assert fact in error.fact
    assert (error.path, error.offset) == (path, None)


@given(st.text(max_size=60) | st.text("ACBijk[]+-*/=,;()max 0.5e", max_size=60))
@settings(max_examples=300)
def test_any_text_is_a_workload_or_a_refusal(expr: str) -> None:
    with suppress(te.IllegalExpression):
        assert text.parse(expr, SIZES, INPUTS).key


# Workloads made without the parser: spatial axes i and j, reduction axes r and s.
EXTENTS = {"i": 4, "j": 6, "r": 3, "s": 2}


@st.composite
def reads(draw: st.DrawFn, axes: dict[str, object], padded: bool, name: str) -> Value:
    """Read a fresh input at affine positions that it has, or at some past its edge."""
    index, shape = [], []
    for _ in range(draw(st.integers(0, 3))):
        names = draw(st.lists(st.sampled_from(sorted(axes)), unique=True, max_size=2))
        factors = [draw(st.integers(1, 3)) for _ in names]
        place = sum((axes[n] * f for n, f in zip(names, factors, strict=True)), start=0)
        reach = sum(f * (EXTENTS[n] - 1) for n, f in zip(names, factors, strict=True))
        offset = draw(st.integers(1, 2)) if padded and reach > 2 else 0
        index.append(place - offset if names else 0)
        slack = 0 if len(names) == 1 and factors == [1] else draw(st.integers(0, 2))
        shape.append(reach + 1 - offset if offset else reach + 1 + slack)
    strides = None
    if draw(st.booleans()) and shape:
        strides = [2 * s for s in te.placeholder(shape, name, "float16").tensor.strides]
    dtype = draw(st.sampled_from(["float16", "bfloat16", "float32"]))
    aligned = draw(st.sampled_from([4, 16]))
    return te.placeholder(shape, name, dtype, strides, aligned)[tuple(index)]


FLOATS = st.floats(-1e6, 1e6, allow_nan=False).map(float)


@st.composite
def values(draw: st.DrawFn, leaves: list[Value], depth: int = 3) -> Value:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(leaves))
    name = draw(st.sampled_from([*BY_NAME, "cast"]))
    inner = draw(values(leaves, depth - 1))
    if name == "cast":
        return te.cast(inner, draw(st.sampled_from(["float16", "float32"])))
    two = {"add", "sub", "mul", "div", "max", "min", "maximum", "minimum"}
    if name not in two:
        return BY_NAME[name](inner)
    other = draw(st.one_of(values(leaves, depth - 1), FLOATS))
    return BY_NAME[name](*draw(st.permutations([inner, other])))


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    r, s = te.reduce_axis(3, "r"), te.reduce_axis(2, "s")
    reduces = draw(st.booleans())

    def inner(i: object, j: object) -> object:
        axes = {"i": i, "j": j, "r": r, "s": s}
        leaves = [draw(reads(axes, padded=True, name=f"X{n}")) for n in range(2)]
        value = draw(values(leaves))
        used = [axis for axis in (r, s) if axis.axes[0] in value.axes]
        if not used:
            value, used = value * te.placeholder((3,), "W", "float16")[r], [r]
        return draw(st.sampled_from([te.sum, te.max]))(value, axis=used)

    acc = te.compute((4, 6), inner, "acc") if reduces else None

    def outer(i: object, j: object) -> object:
        fresh = [draw(reads({"i": i, "j": j}, padded=False, name=f"Z{n}")) for n in range(2)]
        if acc is None:
            return draw(values(fresh))
        return draw(values([acc[i, j], *fresh])) * acc[i, j] if draw(st.booleans()) else acc[i, j]

    out = te.compute((4, 6), outer, "C")
    dtype = draw(st.sampled_from([None, "float16", "float32"]))
    work = te.workload(out, dtype=dtype)
    if draw(st.booleans()):
        work = te.stored(work, "C", strides=(1, 4), alignment_bytes=8)
    return work


@given(workloads())
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_formatted_reads_as_the_same_workload(work: Workload) -> None:
    again = text.read(printer.form(work))
    assert again.canonical == work.canonical
    assert again.key == work.key
    assert text.format(again) == text.format(work)
