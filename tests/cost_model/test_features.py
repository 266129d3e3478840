"""Features: named, finite or missing where they should be, the same alone as in a crowd."""

import hashlib
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.te.operators import matmul
from cost_model.feature_page import ABOUT, page
from cost_model.features import FEATURES, GROUPS, NAMES, features, kept, schema_hash
from search_space import limits
from search_space import target as targets
from search_space.rules import sketches

H200 = targets.load("h200")
SKETCHES = {
    f"{workload.extents['i']} {sketch.name}": sketch
    for workload in (
        matmul(300, 1000, 5000, dtype="float16", epilogue=("bias", "gelu")),
        matmul(16, 8192, 8192, dtype="bfloat16", trans_b=True),
        matmul(64, 64, 4096, dtype="float32"),
        matmul(2, 512, 2048, dtype="float16", trans_b=True),
    )
    for sketch in sketches(workload, H200)
}


def column(table: np.ndarray, name: str) -> np.ndarray:
    return table[:, NAMES.index(name)]


def one(sketch_name: str, **choices: int) -> dict[str, float]:
    sketch = SKETCHES[sketch_name]
    held = {choice.name: choice.domain[0] for choice in sketch.choices} | choices
    table = features(sketch, np.array([[held[n] for n in sketch.names]]), H200)
    return dict(zip(NAMES, map(float, table[0]), strict=True))


@settings(max_examples=40)
@given(st.data(), st.sampled_from(sorted(SKETCHES)))
def test_a_row_is_the_same_alone_as_among_others(data: st.DataObject, name: str) -> None:
    sketch = SKETCHES[name]
    rows = st.tuples(*(st.sampled_from(choice.domain) for choice in sketch.choices))
    matrix = np.array(data.draw(st.lists(rows, min_size=1, max_size=8)), np.int64)
    table = features(sketch, matrix, H200)
    assert table.shape == (len(matrix), len(NAMES))
    assert table.dtype == np.float32
    assert not np.isinf(table).any()
    alone = np.concatenate([features(sketch, row[None], H200) for row in matrix])
    np.testing.assert_array_equal(table, alone)


def test_missing_stands_only_where_a_feature_does_not_apply() -> None:
    may_miss = {"split_share", "access_bytes", "log2_t_join", "log2_shared_bytes"}
    may_miss |= {"stream_stride", "stream_width"}
    may_miss |= {f.name for f in FEATURES if f.group == "compiled"}
    for sketch in SKETCHES.values():
        matrix = np.array([[choice.domain[-1] for choice in sketch.choices]])
        table = features(sketch, matrix, H200)
        missing = {name for name in NAMES if np.isnan(column(table, name)).any()}
        assert missing <= may_miss
        assert ("split_share" in missing) == (sketch.structure.split == "none")
        assert ("access_bytes" in missing) == (sketch.structure.load == "descriptor")
        assert ("log2_shared_bytes" in missing) == (not sketch.structure.dot)


def test_rows_use_no_shared_memory_and_their_features_warn_of_nothing() -> None:
    rows = [sketch for sketch in SKETCHES.values() if not sketch.structure.dot]
    assert rows
    for sketch in rows:
        matrix = np.array(
            [[c.domain[turn % len(c.domain)] for c in sketch.choices] for turn in (0, 1, 2)]
        )
        table = features(sketch, matrix, H200)
        assert np.isnan(column(table, "log2_shared_bytes")).all()
        assert (column(table, "shared_share") == 0).all()
        assert not np.isinf(table).any()


def test_formulas_by_hand() -> None:
    block = {"tile_m": 128, "tile_n": 128, "tile_k": 64, "stages": 3, "warps": 4}
    seen = one("300 contraction.descriptor", **block)  # 300 x 1000 x 5000, float16
    assert seen["log2_tile_m"] == 7
    assert seen["log2_split"] == seen["log2_ctas"] == 0
    assert seen["m_fit"] == np.float32(300 / 384)
    assert seen["padding_efficiency"] == np.float32(300 * 1000 * 5000 / (384 * 1024 * 5056))
    assert seen["registers"] == 128 + 26
    assert seen["resident"] == 2
    assert seen["wgmma"] == 1
    assert seen["log2_programs"] == np.float32(np.log2(24))
    assert seen["wave_efficiency"] == np.float32(24 / 264)
    assert seen["pipeline_fill"] == np.float32(79 / 81)
    assert seen["log2_intensity"] == 6  # 2*128*128 / (2*256) operations a byte
    assert seen["log2_l2_bytes"] == np.float32(np.log2(24 * 79 * 64 * 256 * 2))
    compulsory = 2 * (300 * 5000 + 5000 * 1000 + 300 * 1000) + 2 * 1000
    assert seen["log2_hbm_bytes"] == np.float32(np.log2(compulsory))
    assert seen["epilogue_calls"] > 0


def test_hbm_bytes_are_never_below_the_compulsory_ones() -> None:
    for sketch in SKETCHES.values():
        matrix = np.array([[c.domain[0] for c in sketch.choices]] * 3)
        matrix[:, sketch.names.index("group")] = (1, 4, 32)
        table = features(sketch, matrix, H200)
        compulsory = np.float32(np.log2(sketch.workload.compulsory_bytes))
        assert (column(table, "log2_hbm_bytes") >= compulsory).all()


def test_the_roofline_bounds_the_analytic_efficiency() -> None:
    for sketch in SKETCHES.values():
        matrix = np.array([[choice.domain[1 % len(choice.domain)] for choice in sketch.choices]])
        if not limits.violations(sketch, matrix, H200).any():
            assert column(features(sketch, matrix, H200), "analytic_log_efficiency") <= 0


def test_the_schema_is_names_units_and_formulas() -> None:
    assert len(set(NAMES)) == len(NAMES) == len(FEATURES)
    assert all(feature.unit and feature.formula for feature in FEATURES)
    text = "\n".join(f"{f.name}\t{f.unit}\t{f.formula}" for f in FEATURES)
    assert schema_hash() == hashlib.sha256(text.encode()).hexdigest()[:12]


def test_the_page_of_features_is_that_of_the_code() -> None:
    path = Path(__file__).parents[2] / "docs" / "features.md"
    assert path.read_text(encoding="utf-8") == page()


def test_every_feature_is_in_one_group_and_groups_follow_one_another() -> None:
    groups = [feature.group for feature in FEATURES]
    assert list(dict.fromkeys(groups)) == list(GROUPS)
    assert groups == sorted(groups, key=GROUPS.index)
    assert set(ABOUT) == set(GROUPS)
    assert [FEATURES[n].group for n in kept(GROUPS[1:])] == ["choices"] * 9
