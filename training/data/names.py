"""Invented values (people, places, numbers, dates, ids), seeded and split by hash.

Each value belongs to one split: `Names(rng, "eval")` never yields a value that
`Names(rng, "train")` can yield, so held-out questions ask for values never trained on.
"""

import random
from collections.abc import Callable

from training.data.corpus import hash_fraction

EVAL_FRACTION = 0.1
MONTHS = (
    "January February March April May June July August September October November December"
).split()
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
ONSETS = (
    "b br c ch cl d dr f fl g gl gr h j k kl l m n p pl pr qu r s sh sk sl st str t th tr v w y z"
    " bl cr fr kn ph sc sm sp sw tw wh"
).split()
VOWELS = "a e i o u a e i o a e ai ea ee ia ie io oa oo ou ei au y".split()
CODAS = "  n r l s t m d k nd rt st ck th sh x rn ll ss ng lt rk mp nt".split(" ")
FIRST_NAMES = (
    "Ada Alan Alice Amara Amir Ana Anders Anna Arjun Astrid Ben Bianca Boris Carla Carlos Chen Chloe Clara"
    " Daniel Dara David Deepa Diego Dmitri Edith Elena Eli Emil Emma Erik Esther Fatima Felix Fiona Frank"
    " Gabriel Gita Grace Greta Hana Hassan Helen Henrik Hugo Ida Igor Ines Ingrid Ivan Jack Jana Javier"
    " Jin Joan Jonas Jorge Julia Kai Karim Karin Kenji Kofi Lars Laura Lena Leo Lila Linda Liu Lucas Luis"
    " Maria Marco Marta Max Mei Mia Mina Miriam Mohan Nadia Naomi Nikolai Nina Noah Nora Olga Oliver Omar"
    " Oscar Paula Pavel Peter Petra Priya Rafael Rania Ravi Rosa Ruth Salma Sam Sara Sofia Stefan Sven Tara"
    " Thomas Tomas Uma Ursula Vera Victor Wei Yara Yusuf Zara Zoe"
).split()
PLACE_ENDS = (
    "ville ton burg ford haven holm stad wick bridge port field dale mouth grad polis shire by"
    " minster creek falls ridge"
).split()
ADJECTIVES = (
    "Amber Arctic Autumn Blue Bold Bright Bronze Calm Cedar Clear Cobalt Copper Coral Crimson Crystal Dawn"
    " Deep Desert Distant Eager Early Ember Emerald Fast Fern Frost Gentle Giant Golden Granite Green Grey"
    " Hidden Hollow Indigo Iron Ivory Jade Juniper Lone Lunar Maple Marble Meadow Misty Noble North Oak"
    " Ocean Olive Onyx Opal Orchid Pale Paper Pine Polar Prime Quartz Quiet Rapid Red River Rocky Rose"
    " Royal Ruby Rust Saffron Sandy Scarlet Shadow Sharp Silent Silver Slate Solar Steel Stone Storm Summer"
    " Swift Tall Teal Thunder Tidal Timber Topaz Velvet Violet West White Wild Winter Zinc"
).split()
THINGS = (
    "Anchor Anvil Arrow Atlas Badger Banner Barrel Basin Beacon Bear Bell Bison Bloom Bolt Bridge Brook"
    " Canyon Castle Cloud Comet Compass Condor Crane Crown Delta Dolphin Dove Dune Eagle Engine Falcon Ferry"
    " Field Finch Flame Forge Fox Gate Glacier Grove Gull Hammer Harbor Hare Harvest Hawk Heron Hill Horizon"
    " Island Kettle Kite Lake Lantern Lark Leaf Ledger Lion Lynx Mast Mesa Mill Mirror Moon Moth Mountain"
    " Needle Nest Orbit Otter Owl Panther Path Peak Pearl Pilot Plain Planet Plow Pond Prairie Prism Quarry"
    " Rabbit Raven Reef Robin Rocket Sail Salmon Shell Shore Signal Sparrow Spring Spruce Star Stream Swan"
    " Tiger Tower Trail Tulip Tunnel Valley Vessel Wagon Wave Well Whale Wheel Willow Wolf Wren"
).split()
COLOURS = (
    "red blue green yellow orange purple white black grey brown pink silver gold teal navy maroon"
    " turquoise crimson beige violet"
).split()
WORDS = (
    "adapter agent alarm archive array asset audit badge batch beacon binding block branch bridge broker"
    " bucket buffer bundle cache canvas catalog channel chart client cluster codec column config console"
    " contract cookie counter crawler cursor daemon dashboard digest dispatch document domain driver edge"
    " email encoder engine event export facade feed fetch field filter folder form frame gateway graph grid"
    " group guard handler hash header hook image import index input invoice journal kernel label layer ledger"
    " lease lexer library limiter link listener loader lock logger mailer mapper matrix mesh message metric"
    " mirror model module monitor network node notice object option order packet page parser patch payload"
    " peer pipeline plan plugin policy pool portal printer probe process profile project proxy queue quota"
    " record region registry relay render replica report request resolver router rule runner sample scanner"
    " schema script search sensor server session shard signal socket source spool stack state storage store"
    " stream switch table task template tenant thread ticket timer token topic trace tracker tree trigger"
    " tunnel upload user vault vector version view volume watcher webhook widget worker writer"
).split()


def value_split(value: str) -> str:
    """The split that owns an invented value."""
    return "eval" if hash_fraction("value:" + value.lower()) < EVAL_FRACTION else "train"


class Names:
    """Draws invented values of one split."""

    def __init__(self, rng: random.Random, split: str = "train") -> None:
        self.rng = rng
        self.split = split

    def owned(self, draw: Callable[[], str]) -> str:
        """Draws until the value belongs to this split."""
        while True:
            value = draw()
            if value_split(value) == self.split:
                return value

    def syllables(self, least: int, most: int) -> str:
        """An invented lower-case word."""
        choice = self.rng.choice
        count = self.rng.randint(least, most)
        return "".join(choice(ONSETS) + choice(VOWELS) for _ in range(count)) + choice(CODAS)

    def word(self) -> str:
        return self.owned(lambda: self.syllables(1, 3).capitalize())

    def first_name(self) -> str:
        def draw() -> str:
            return (
                self.rng.choice(FIRST_NAMES)
                if self.rng.random() < 0.5
                else self.syllables(1, 2).capitalize()
            )

        return self.owned(draw)

    def last_name(self) -> str:
        return self.owned(lambda: self.syllables(1, 3).capitalize())

    def person(self) -> str:
        return f"{self.first_name()} {self.last_name()}"

    def place(self) -> str:
        def draw() -> str:
            style = self.rng.random()
            if style < 0.5:
                return self.syllables(1, 2).capitalize() + self.rng.choice(PLACE_ENDS)
            if style < 0.7:
                return f"{self.rng.choice(ADJECTIVES)} {self.rng.choice(THINGS)}"
            prefix = self.rng.choice(
                ("Port ", "Lake ", "New ", "Saint ", "Mount ", "Fort ", "", "", "")
            )
            return prefix + self.syllables(1, 3).capitalize()

        return self.owned(draw)

    def pair(self) -> str:
        return self.owned(lambda: f"{self.rng.choice(ADJECTIVES)} {self.rng.choice(THINGS)}")

    def product(self) -> str:
        def draw() -> str:
            style = self.rng.random()
            if style < 0.4:
                return self.rng.choice(ADJECTIVES) + self.rng.choice(THINGS).lower()
            if style < 0.7:
                return f"{self.syllables(1, 2).capitalize()} {self.rng.choice(('Pro', 'One', 'X', 'Mini', 'Max', 'Go'))}"
            return f"{self.syllables(1, 2).capitalize()}{self.rng.choice(('DB', 'Kit', 'Flow', 'Base', 'Hub', 'Lab'))}"

        return self.owned(draw)

    def company(self) -> str:
        ends = (
            "Labs",
            "Systems",
            "Group",
            "Industries",
            "Works",
            "Partners",
            "Media",
            "Foods",
            "Energy",
            "Robotics",
        )
        return self.owned(lambda: f"{self.syllables(1, 2).capitalize()} {self.rng.choice(ends)}")

    def service(self) -> str:
        return self.owned(lambda: f"{self.rng.choice(WORDS)}-{self.rng.choice(WORDS)}")

    def library(self) -> str:
        def draw() -> str:
            style = self.rng.random()
            if style < 0.5:
                return self.syllables(1, 3)
            return f"{self.syllables(1, 2)}{self.rng.choice(('-js', '-core', 'py', '-rs', '-http', '-cli'))}"

        return self.owned(draw)

    def identifier(self) -> str:
        def draw() -> str:
            letters = "".join(
                self.rng.choice("ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(self.rng.randint(1, 3))
            )
            return f"{letters}-{self.rng.randint(10, 99999)}"

        return self.owned(draw)

    def number(self, low: int, high: int) -> str:
        """A number with one to three leading digits that matter and a thousands comma at times."""

        def draw() -> str:
            value = self.rng.randint(low, high)
            if value > 2000 and self.rng.random() < 0.4:
                value -= value % self.rng.choice((10, 50, 100))
            return str(value)

        return self.owned(draw)

    def big(self, low: int, high: int) -> str:
        value = int(self.number(low, high))
        return f"{value:,}" if self.rng.random() < 0.6 else str(value)

    def year(self) -> str:
        return self.owned(lambda: str(self.rng.randint(1702, 2025)))

    def date(self) -> str:
        def draw() -> str:
            day, month, year = (
                self.rng.randint(1, 28),
                self.rng.choice(MONTHS),
                self.rng.randint(1990, 2027),
            )
            return self.rng.choice(
                (f"{day} {month} {year}", f"{month} {day}, {year}", f"{month} {day}")
            )

        return self.owned(draw)

    def iso_date(self) -> str:
        return self.owned(
            lambda: f"{self.rng.randint(1990, 2027)}-{self.rng.randint(1, 12):02}-{self.rng.randint(1, 28):02}"
        )

    def clock(self) -> str:
        def draw() -> str:
            hour, minute = self.rng.randint(0, 23), self.rng.choice(
                (0, 5, 10, 12, 15, 20, 25, 30, 35, 40, 45, 48, 50, 55)
            )
            if self.rng.random() < 0.5:
                return f"{hour:02}:{minute:02}"
            return f"{hour % 12 or 12}:{minute:02} {'a.m.' if hour < 12 else 'p.m.'}"

        return self.owned(draw)

    def weekday(self) -> str:
        return self.rng.choice(WEEKDAYS)

    def colour(self) -> str:
        return self.rng.choice(COLOURS)

    def money(self) -> str:
        def draw() -> str:
            amount = self.rng.choice(
                (
                    self.rng.randint(3, 999),
                    self.rng.randint(1000, 99_000),
                    self.rng.randint(1, 90) * 1000,
                )
            )
            text = (
                f"{amount:,}"
                if self.rng.random() < 0.7
                else f"{amount}.{self.rng.randint(0, 99):02}"
            )
            return self.rng.choice((f"${text}", f"${text}", f"{text} euros", f"{text} dollars"))

        return self.owned(draw)

    def version(self) -> str:
        return self.owned(
            lambda: ".".join(str(self.rng.randint(0, 24)) for _ in range(self.rng.randint(2, 3)))
        )

    def address(self) -> str:
        return self.owned(lambda: ".".join(str(self.rng.randint(1, 254)) for _ in range(4)))

    def email(self) -> str:
        first, last = self.first_name().lower(), self.last_name().lower()
        return f"{first}.{last}@{self.syllables(1, 2)}.{self.rng.choice(('com', 'org', 'example', 'io'))}"

    def quantity(self, units: tuple[str, ...], low: int, high: int) -> str:
        return f"{self.number(low, high)} {self.rng.choice(units)}"
