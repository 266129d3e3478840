"""What a spec may say: one schema for files and for the inline form, and its JSON Schema.

Knows the fields and their types; whether a computation makes sense is for ``autosched.te``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StringConstraints, Tag

from autosched.te import layout, operators, text
from autosched.te.error import IllegalExpression
from autosched.te.form import Form, Output, Stored
from search_space.workload import Workload

LARGEST = 1 << 40
#: What specs call tensors of operators that workloads call otherwise.
TENSORS = {**operators.OPERANDS, "c": "C"}
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
        r"^(bias|residual|scale_a|scale_b|row_scale|column_scale|relu|gelu|gelu_tanh|silu|softmax"
        r"|scale:[-+0-9.eE]+)$"
    )
}
Epilogue = Annotated[str, Field(json_schema_extra=_EPILOGUE)]


class _Fields(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Labelled(_Fields):
    id: Identifier | None = Field(None, description="what tables and --only call it")
    source: str | None = Field(None, description="where the shape comes from")
    tags: Tags = Field(default_factory=list, description="groups that a report gives means over")


class MatmulFields(_Labelled):
    """C[m, n] of A[m, k] and B[k, n]; trans_a: A is stored [k, m]; trans_b: B as [n, k]."""

    op: Literal["matmul"]
    m: Extent
    n: Extent
    k: Extent
    dtype: OperandDtype
    out_dtype: DtypeName | None = None
    trans_a: bool = False
    trans_b: bool = False
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
        return self._laid_out(operators.matmul(self.m, self.n, self.k, **self._how()))

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


class InputFields(_Fields):
    """How an input is stored; strides in elements, row-major by default."""

    shape: list[Extent]
    dtype: DtypeName
    strides: list[Stride] | None = None
    alignment_bytes: Alignment = 16
    constant: bool = Field(False, description="the same from call to call, as weights are")


class OutputFields(_Fields):
    """How the output is stored; by default in the dtype of what is reduced, row-major."""

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
    "<expr>": ExpressionFields,
    "inputs": InputFields,
    "output": OutputFields,
    "suite": SuiteFields,
    "tune": TuneFields,
}
OPS = ("matmul", "batch_matmul")


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of spec files, for editors."""
    schema = SpecFields.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
