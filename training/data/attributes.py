"""All kinds of facts, by key."""

from training.data.attribute import Attribute
from training.data.software_facts import SOFTWARE_FACTS
from training.data.world_facts import WORLD_FACTS

ATTRIBUTES: dict[str, Attribute] = {fact.key: fact for fact in (*SOFTWARE_FACTS, *WORLD_FACTS)}
