"""The schema for editors, and its agreement with what it describes."""

import json
import re
from typing import get_args

from autosched.spec import json_schema, schema
from autosched.te.convolution import BY_NAME
from autosched.te.epilogue import ELEMENTWISE
from autosched.te.operand import OPERAND_DTYPES
from autosched.te.position import LARGEST
from search_space.dtype import DTYPES
from search_space.workload import PRECISIONS


def test_it_is_plain_json_and_refuses_unknown_keys() -> None:
    data = json.loads(json.dumps(json_schema()))
    assert data["title"] == "autosched spec"
    assert data["additionalProperties"] is False
    assert data["oneOf"] == [{"required": ["workload"]}, {"required": ["suite"]}]
    for name, definition in data["$defs"].items():
        assert definition["additionalProperties"] is False, name


def test_it_lists_the_fields_of_each_kind_of_workload() -> None:
    definitions = json_schema()["$defs"]
    matmul = definitions["MatmulFields"]
    assert set(matmul["required"]) == {"op", "m", "n", "k", "dtype"}
    assert matmul["properties"]["m"] == {
        "maximum": 1 << 40,
        "minimum": 1,
        "title": "M",
        "type": "integer",
    }
    assert matmul["properties"]["constant"]["type"] == "array"
    assert definitions["InputFields"]["properties"]["constant"]["type"] == "boolean"
    assert "constant" not in definitions["OutputFields"]["properties"]
    assert definitions["ExpressionFields"]["required"] == ["expr", "sizes", "inputs"]


def test_names_are_those_of_the_layers_below() -> None:
    assert get_args(schema.DtypeName) == tuple(DTYPES)
    assert get_args(schema.OperandDtype) == OPERAND_DTYPES
    assert get_args(schema.PrecisionName) == PRECISIONS
    assert schema.LARGEST == LARGEST
    definitions = json_schema()["$defs"]
    pattern = definitions["MatmulFields"]["properties"]["epilogue"]["items"]["pattern"]
    for word in ("bias", "residual", *ELEMENTWISE, "scale:0.5", "scale:-1e+3"):
        assert re.fullmatch(pattern, word)
    assert ("matmul", "batch_matmul", *BY_NAME) == schema.OPS
