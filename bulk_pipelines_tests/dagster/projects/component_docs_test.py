"""What Dagster shows people of the components: every field says what it is for."""

from collections.abc import Iterator

import dagster as dg
import pytest

from bulk_pipelines import components
from bulk_pipelines.errors import InvalidInput

ALL: list[type[components.Part]] = [
    components.Table,
    components.Drops,
    components.Distribution,
    components.Processing,
    components.Upkeep,
]


def fields() -> Iterator[tuple[str, str, str | None]]:
    for component in ALL:
        model = component.get_model_cls()
        assert model is not None
        for name, field in model.model_fields.items():
            yield component.__name__, name, field.description
    for name, parameter in components.TableParams.model_fields.items():
        yield "TableParams", name, parameter.description


@pytest.mark.parametrize(("component", "field", "says"), list(fields()))
def test_each_field_says_what_it_is_for(component: str, field: str, says: str | None) -> None:
    assert says, f"Dagster's docs of {component} say nothing of {field}"


def test_all_components_are_looked_at() -> None:
    declared = {
        name for name, each in vars(components).items() if isinstance(each, type) and issubclass(each, dg.Component)
    }
    assert declared - {"Part"} == {each.__name__ for each in ALL}


def test_a_table_that_nobody_has_declared_is_refused_with_the_command_that_declares_it() -> None:
    with pytest.raises(InvalidInput, match="`bulk resources adopt` declares"):
        components.parts.table("shoes")
