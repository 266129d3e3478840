"""What a spec may say: one schema for files and for the inline form, and its JSON Schema.

Knows the fields and their types; whether a computation makes sense is for ``autosched.te``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StringConstraints, Tag

from autosched.te import convolution, layout, operators, text
from autosched.te.error import IllegalExpression
from autosched.te.form import Form, Output, Stored
from search_space.workload import Workload

LARGEST = 1 << 40
#: What specs call tensors of operators that workloads call otherwise.
TENSORS = {**operators.OPERANDS, "c": "C", **convolution.OPERANDS, "y": "Y"}
Extent = Annotated[int, Field(ge=1, le=LARGEST)]
Stride = Annotated[int, Field(ge=0, le=LARGEST)]
Alignment = Annotated[int, Field(ge=1, le=256)]
DtypeName = Literal["float16", "bfloat16", "float32", "float64", "float8_e4m3", "int8", "int32"]
OperandDtype = Literal["float16", "bfloat16", "float32", "float8_e4m3", "int8"]
PrecisionName = Literal["ieee", "tf32", "tf32x3", "fast"]
Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")]
Tags = Annotated[list[Identifier], Field(max_length=16)]
_EPILOGUE = {
    "pattern": (
        r"^(bias|residual|scale_a|scale_b|row_scale|column_scale|bn_scale|bn_shift|channel_scale|relu|gelu|gelu_tanh|silu|softmax"
        r"|scale:[-+0-9.eE]+)$"
    )
}
Epilogue = Annotated[str, Field(json_schema_extra=_EPILOGUE)]


class _Fields(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Weight = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]


class _Labelled(_Fields):
    id: Identifier | None = Field(None, description="what tables and --only call it")
    source: str | None = Field(None, description="where the shape comes from")
    tags: Tags = Field(default_factory=list, description="groups that a report gives means over")
    weight: Weight = Field(
        1.0, description="how often it runs, for tasks that are tuned under one budget"
    )


#: What a spec says of a workload beside the workload itself.
LABELS = frozenset(_Labelled.model_fields)


class OperatorFields(_Labelled):
    """What every named operator says. ``workload`` is for each to build."""

    dtype: OperandDtype
    out_dtype: DtypeName | None = None
    precision: PrecisionName = Field(
        "ieee", description="float32: ieee, tf32 or tf32x3; float8: ieee or fast"
    )
    epilogue: list[Epilogue] = Field(default_factory=list)
    constant: list[str] = Field(
        default_factory=list,
        description="inputs that stay the same from call to call, as weights do: a, b, bias, ...",
    )
    strides: dict[str, list[Stride]] = Field(
        default_factory=dict,
        description="of a, b, bias, ... or c, where it is not stored row by row: in elements, "
        "outermost first; 0 repeats, such as an operand that all batches share",
    )
    alignment_bytes: dict[str, Alignment] = Field(
        default_factory=dict,
        description="of a, b, bias, ... or c: what its address is a multiple of, if not of 16",
    )

    def workload(self) -> Workload:
        """Return the workload; raises IllegalExpression."""
        raise NotImplementedError

    def _laid_out(self, plain: Workload) -> Workload:
        """Return ``plain`` with its tensors stored as the fields say, and the label too."""
        made, words = plain, [plain.label]
        for name, strides in self.strides.items():
            made = _stored(made, "strides", name, strides=strides)
            words.append(f"strides.{name}={'+'.join(map(str, strides))}")
        for name, aligned in self.alignment_bytes.items():
            made = _stored(made, "alignment_bytes", name, alignment_bytes=aligned)
            words.append(f"alignment_bytes.{name}={aligned}")
        return replace(made, label=" ".join(words))


class MatmulFields(OperatorFields):
    """C[m, n] of A[m, k] and B[k, n]; trans_a: A is stored [k, m]; trans_b: B as [n, k]."""

    op: Literal["matmul"]
    m: Extent
    n: Extent
    k: Extent
    trans_a: bool = False
    trans_b: bool = False

    def workload(self) -> Workload:
        """Return the workload; raises IllegalExpression."""
        return self._laid_out(operators.matmul(self.m, self.n, self.k, **self._how()))

    def _how(self) -> dict[str, Any]:
        names = ("dtype", "out_dtype", "trans_a", "trans_b", "precision", "epilogue", "constant")
        return {name: getattr(self, name) for name in names}


class BatchMatmulFields(MatmulFields):
    """``batch`` matmuls side by side, a leading dimension everywhere but in a bias."""

    op: Literal["batch_matmul"]  # type: ignore[assignment]
    batch: Extent

    def workload(self) -> Workload:
        """Return the workload; raises IllegalExpression."""
        sizes = (self.batch, self.m, self.n, self.k)
        return self._laid_out(operators.batch_matmul(*sizes, **self._how()))


def _stored(workload: Workload, field: str, name: str, **how: Any) -> Workload:
    """Return ``workload`` with the tensor that a spec calls ``name`` stored otherwise."""
    spelled = {inner: outer for outer, inner in TENSORS.items()}
    names = [spelled.get(t.name, t.name) for t in (*workload.inputs, workload.output)]
    if name not in names:
        raise IllegalExpression(
            f"{name[:40]!r} is no tensor here; there are {', '.join(names)}", (field, name)
        )
    try:
        return layout.stored(workload, TENSORS.get(name, name), **how)
    except IllegalExpression as error:
        raise IllegalExpression(error.fact, (field, name)) from error


class _ConvolutionFields(OperatorFields):
    """A convolution: n images of ci channels; lists give a number for each spatial dimension."""

    n: Extent
    ci: Extent
    co: Extent | None = None
    stride: int | list[int] = Field(1, description="at least 1, or one for each dimension")
    pad: int | str | list[int | list[int]] = Field(
        0, description="one number, one for each dimension, a pair for each, or same"
    )
    dilation: int | list[int] = 1
    groups: int | None = None
    layout: str | None = Field(None, description="channels last unless said otherwise")

    def workload(self) -> Workload:
        """Return the workload; raises IllegalExpression."""
        skipped = {*LABELS, "op", "strides", "alignment_bytes"}
        given = {
            name: getattr(self, name) for name in type(self).model_fields if name not in skipped
        }
        op: str = self.op  # type: ignore[attr-defined]
        return self._laid_out(convolution.BY_NAME[op](**given))


class _Length(_ConvolutionFields):
    l: Extent  # noqa: E741
    kl: Extent


class _Plane(_ConvolutionFields):
    h: Extent
    w: Extent
    kh: Extent
    kw: Extent


class _Volume(_Plane):
    d: Extent
    kd: Extent


class _Depthwise(_ConvolutionFields):
    multiplier: Extent | None = Field(None, description="outputs of each channel")


class _Transposed(_ConvolutionFields):
    output_pad: int | list[int] = 0


class Conv1dFields(_Length):
    """Y[n, x, co] of X[n, l, ci] and W[co, kl, ci]; layout NCL puts channels first."""

    op: Literal["conv1d"]


class Conv2dFields(_Plane):
    """Y[n, y, x, co] of X[n, h, w, ci] and W[co, kh, kw, ci]; layout NCHW puts channels first."""

    op: Literal["conv2d"]


class Conv3dFields(_Volume):
    """Y[n, z, y, x, co] of X[n, d, h, w, ci] and W[co, kd, kh, kw, ci]; or layout NCDHW."""

    op: Literal["conv3d"]


class DepthwiseConv1dFields(_Length, _Depthwise):
    """Each channel of X with filters W[ci, multiplier, kl] of its own."""

    op: Literal["depthwise_conv1d"]


class DepthwiseConv2dFields(_Plane, _Depthwise):
    """Each channel of X with filters W[ci, multiplier, kh, kw] of its own."""

    op: Literal["depthwise_conv2d"]


class DepthwiseConv3dFields(_Volume, _Depthwise):
    """Each channel of X with filters W[ci, multiplier, kd, kh, kw] of its own."""

    op: Literal["depthwise_conv3d"]


class ConvTranspose1dFields(_Length, _Transposed):
    """The adjoint of conv1d: Y[n, x, co] of X[n, l, ci] and W[ci, kl, co]."""

    op: Literal["conv_transpose1d"]


class ConvTranspose2dFields(_Plane, _Transposed):
    """The adjoint of conv2d: Y[n, y, x, co] of X[n, h, w, ci] and W[ci, kh, kw, co]."""

    op: Literal["conv_transpose2d"]


class ConvTranspose3dFields(_Volume, _Transposed):
    """The adjoint of conv3d: Y[n, z, y, x, co] of X[n, d, h, w, ci] and W[ci, kd, kh, kw, co]."""

    op: Literal["conv_transpose3d"]


class InputFields(_Fields):
    """How an input is stored; strides in elements, row-major by default."""

    shape: list[Extent]
    dtype: DtypeName
    strides: list[Stride] | None = None
    alignment_bytes: Alignment = 16
    constant: bool = Field(False, description="the same from call to call, as weights are")


class OutputFields(_Fields):
    """How the output is stored; by default in the dtype of what is reduced, row-major."""

    shape: list[Extent] | None = Field(
        None, description="by default the least that holds what the left side names"
    )
    dtype: DtypeName | None = None
    strides: list[Stride] | None = None
    alignment_bytes: Alignment = 16


class ExpressionFields(_Labelled):
    """A computation as text: C[i,j] += A[i,k] * B[k,j], sizes, inputs and an epilogue."""

    expr: str
    sizes: dict[str, Extent]
    inputs: dict[str, InputFields]
    epilogue: str | None = None
    output: OutputFields = Field(default_factory=OutputFields)
    precision: PrecisionName = "ieee"

    def workload(self) -> Workload:
        """Return the workload; raises IllegalExpression."""
        inputs = {name: Stored(**_tuples(held)) for name, held in self.inputs.items()}
        output = Output(**_tuples(self.output))
        return text.read(Form(self.expr, self.sizes, inputs, self.epilogue, output, self.precision))


def _tuples(fields: BaseModel) -> dict[str, Any]:
    held = fields.model_dump()
    return {name: tuple(v) if isinstance(v, list) else v for name, v in held.items()}


def tag(data: Any) -> str | None:
    """Return which kind of workload ``data`` states, None if it says none or two."""
    if not isinstance(data, dict) or ("op" in data) == ("expr" in data):
        return None
    return "<expr>" if "expr" in data else f"<{str(data['op'])[:40]}>"


WorkloadFields = Annotated[
    Annotated[MatmulFields, Tag("<matmul>")]
    | Annotated[BatchMatmulFields, Tag("<batch_matmul>")]
    | Annotated[Conv1dFields, Tag("<conv1d>")]
    | Annotated[Conv2dFields, Tag("<conv2d>")]
    | Annotated[Conv3dFields, Tag("<conv3d>")]
    | Annotated[DepthwiseConv1dFields, Tag("<depthwise_conv1d>")]
    | Annotated[DepthwiseConv2dFields, Tag("<depthwise_conv2d>")]
    | Annotated[DepthwiseConv3dFields, Tag("<depthwise_conv3d>")]
    | Annotated[ConvTranspose1dFields, Tag("<conv_transpose1d>")]
    | Annotated[ConvTranspose2dFields, Tag("<conv_transpose2d>")]
    | Annotated[ConvTranspose3dFields, Tag("<conv_transpose3d>")]
    | Annotated[ExpressionFields, Tag("<expr>")],
    Discriminator(tag),
]


class SuiteFields(_Fields):
    """Workloads under one name, each with an id."""

    name: Identifier
    workloads: Annotated[list[WorkloadFields], Field(min_length=1)]


class TuneFields(_Fields):
    """Defaults for tuning; flags and the environment go before them."""

    trials: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    seed: Annotated[int, Field(ge=0, le=(1 << 32) - 1)] | None = None
    early_stopping: Annotated[int, Field(ge=1)] | None = None
    timeout_s: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] | None = None
    effort: Literal["quick", "normal", "full"] | None = None


class SpecFields(_Fields):
    """A spec file: one workload or a suite, and defaults for tuning."""

    model_config = ConfigDict(
        title="autosched spec",
        json_schema_extra={"oneOf": [{"required": ["workload"]}, {"required": ["suite"]}]},
    )
    workload: WorkloadFields | None = None
    suite: SuiteFields | None = None
    tune: TuneFields = Field(default_factory=TuneFields)


#: The fields that a step of an error's path leads to.
OWNERS: dict[str | int, type[BaseModel]] = {
    "<matmul>": MatmulFields,
    "<batch_matmul>": BatchMatmulFields,
    "<conv1d>": Conv1dFields,
    "<conv2d>": Conv2dFields,
    "<conv3d>": Conv3dFields,
    "<depthwise_conv1d>": DepthwiseConv1dFields,
    "<depthwise_conv2d>": DepthwiseConv2dFields,
    "<depthwise_conv3d>": DepthwiseConv3dFields,
    "<conv_transpose1d>": ConvTranspose1dFields,
    "<conv_transpose2d>": ConvTranspose2dFields,
    "<conv_transpose3d>": ConvTranspose3dFields,
    "<expr>": ExpressionFields,
    "inputs": InputFields,
    "output": OutputFields,
    "suite": SuiteFields,
    "tune": TuneFields,
}
OPS = ("matmul", "batch_matmul", *convolution.BY_NAME)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of spec files, for editors."""
    schema = SpecFields.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
