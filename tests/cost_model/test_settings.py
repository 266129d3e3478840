"""Settings are checked where they are read, and errors name the setting, the wish and the fact."""

from typing import Any

import pytest

from cost_model import models
from cost_model.analytic_model import AnalyticModel
from cost_model.random_model import RandomModel
from cost_model.settings import BadSettings, ModelSettings, NoSettings, read
from cost_model.xgboost_model import XGBoostModel


def test_plain_data_and_back() -> None:
    held = ModelSettings(objective="ndcg", dropped=("compiled", "grid"), eta=0.05, rounds=20)
    assert read(ModelSettings, held.to_data()) == held
    assert read(ModelSettings, {}) == ModelSettings()
    assert read(ModelSettings, {"rounds": 7}) == ModelSettings(rounds=7)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"objective": "log"}, "the setting objective is one of log_efficiency, throughput, "),
    ({"residual": 1}, "the setting residual is true or false, not 1"),
    ({"rounds": 0}, "the setting rounds is a whole number from 1 to 10000, not 0"),
    ({"rounds": True}, "the setting rounds is a whole number from 1 to 10000, not True"),
    ({"bags": 2.0}, "the setting bags is a whole number from 1 to 64, not 2.0"),
    ({"eta": 0}, "the setting eta is a number from 0.0001 to 1, not 0"),
    ({"optimism": float("nan")}, "the setting optimism is a number from -10 to 10, not nan"),
    ({"dropped": ["tiles"]}, "the setting dropped is a list of some of choices, shape"),
    ({"dropped": ["grid", "grid"]}, "the setting dropped is a list of some of"),
    ({"dropped": "grid"}, "the setting dropped is a list of some of"),
    ({"objective": "pairwise", "weights": "throughput"}, "the setting weights is none or workload"),
    ({"trees": 3}, "the setting trees is one of objective, residual, "),
]


@pytest.mark.parametrize(("data", "message"), BAD, ids=lambda value: str(value)[:30])
def test_wrong_settings_are_refused_in_a_sentence(data: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSettings) as caught:
        models.make("xgboost", 0, data)
    assert str(caught.value).startswith(message)
    assert caught.value.name in message
    assert caught.value.wish in str(caught.value)


def test_the_table_makes_each_by_its_name() -> None:
    made = {name: models.make(name, 0) for name in models.NAMES}
    assert {name: type(model) for name, model in made.items()} == {
        "xgboost": XGBoostModel,
        "analytic": AnalyticModel,
        "random": RandomModel,
    }
    assert all(made[name].name == name for name in made)
    assert made["xgboost"].settings == ModelSettings().to_data()
    assert made["analytic"].settings == {}
    assert models.settings_of("random") is NoSettings


def test_a_name_or_a_setting_that_is_none() -> None:
    with pytest.raises(BadSettings, match="cost_model is one of xgboost, analytic, random"):
        models.make("forest", 0)
    with pytest.raises(BadSettings, match="rounds is not known: there are none"):
        models.make("analytic", 0, {"rounds": 3})
