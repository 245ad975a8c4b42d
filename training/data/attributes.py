"""Facts that invented things can have: how they are stated, asked for and answered.

`{n}` is the thing, `{v}` the value. The first string of each question list is the plain one.
"""

from collections.abc import Callable
from dataclasses import dataclass

from training.data.names import Names


@dataclass(frozen=True)
class Attribute:
    """One kind of fact."""

    key: str
    draw: Callable[[Names], str]
    statements: tuple[str, ...]
    questions: tuple[str, ...]
    closed: bool = False
    """Whether values come from a short list, so that they cannot be held out."""


def _attribute(
    key: str, draw: Callable[[Names], str], statements: str, questions: str, closed: bool = False
) -> Attribute:
    split = lambda text: tuple(part.strip() for part in text.split("|"))  # noqa: E731
    return Attribute(key, draw, split(statements), split(questions), closed)


A = _attribute
ATTRIBUTES: dict[str, Attribute] = {
    a.key: a
    for a in [
        A(
            "year_built",
            Names.year,
            "{n} was built in {v}|Builders completed {n} in {v}|Construction of {n} ended in {v}|{n} dates from {v}",
            "When was {n} built?|In which year was {n} built?|What year was {n} completed?|How old is {n}: in what year was it finished?",
        ),
        A(
            "year_founded",
            Names.year,
            "{n} was founded in {v}|{n} began its work in {v}|{n} started in {v}|The founding of {n} took place in {v}",
            "When was {n} founded?|In what year was {n} founded?|What year did {n} start?|When did {n} begin?",
        ),
        A(
            "founder",
            Names.person,
            "{n} was founded by {v}|{v} founded {n}|The founder of {n} is {v}|{v} started {n}",
            "Who founded {n}?|Who is the founder of {n}?|Who started {n}?|What is the name of the founder of {n}?",
        ),
        A(
            "location",
            Names.place,
            "{n} is located in {v}|{n} can be found in {v}|{n} lies in {v}|Visitors find {n} in {v}",
            "Where is {n} located?|Where is {n}?|In which place is {n}?|Where can {n} be found?",
        ),
        A(
            "headquarters",
            Names.place,
            "{n} has its headquarters in {v}|{n} is based in {v}|The main office of {n} is in {v}",
            "Where is {n} based?|Where are the headquarters of {n}?|In which city is {n} based?|Where is the main office of {n}?",
        ),
        A(
            "architect",
            Names.person,
            "{n} was designed by {v}|{v} designed {n}|The architect of {n} was {v}",
            "Who designed {n}?|Who was the architect of {n}?|What is the name of the architect of {n}?",
        ),
        A(
            "height",
            lambda n: n.quantity(("metres", "meters", "feet", "m"), 4, 900),
            "{n} is {v} tall|{n} stands {v} high|The height of {n} is {v}|{n} rises {v}",
            "How tall is {n}?|How high is {n}?|What is the height of {n}?",
        ),
        A(
            "length",
            lambda n: n.quantity(("kilometres", "km", "miles", "metres", "meters"), 2, 990),
            "{n} is {v} long|The length of {n} is {v}|{n} measures {v} from end to end|{n} runs for {v}",
            "How long is {n}?|What is the length of {n}?|What distance does {n} cover?",
        ),
        A(
            "weight",
            lambda n: n.quantity(("kg", "kilograms", "tonnes", "grams", "pounds"), 2, 990),
            "{n} weighs {v}|The weight of {n} is {v}|On the scale {n} comes to {v}",
            "How much does {n} weigh?|What is the weight of {n}?|How heavy is {n}?",
        ),
        A(
            "price",
            Names.money,
            "{n} costs {v}|The price of {n} is {v}|{n} sells for {v}|Buyers pay {v} for {n}",
            "How much does {n} cost?|What is the price of {n}?|What does {n} cost?|How much must a buyer pay for {n}?",
        ),
        A(
            "budget",
            Names.money,
            "The budget of {n} is {v}|{n} has a budget of {v}|A sum of {v} was set aside for {n}",
            "What is the budget of {n}?|How large is the budget of {n}?|How much money does {n} have?",
        ),
        A(
            "visitors",
            lambda n: n.big(120, 900_000),
            "{n} receives {v} visitors a year|Each year {v} people visit {n}|About {v} people come to {n} every year",
            "How many people visit {n} each year?|How many visitors does {n} receive a year?|How many visitors come to {n} every year?",
        ),
        A(
            "employees",
            lambda n: n.big(4, 60_000),
            "{n} employs {v} people|{n} has {v} employees|A staff of {v} works at {n}|{v} people work for {n}",
            "How many people work at {n}?|How many employees does {n} have?|How many people does {n} employ?|What is the staff size of {n}?",
        ),
        A(
            "population",
            lambda n: n.big(90, 990_000),
            "{n} has a population of {v}|{v} people live in {n}|{n} has {v} inhabitants",
            "What is the population of {n}?|How many people live in {n}?|How many inhabitants does {n} have?",
        ),
        A(
            "capacity",
            lambda n: n.big(12, 90_000),
            "{n} holds up to {v} people|{n} seats {v} people|{n} has room for {v} guests|The capacity of {n} is {v} people",
            "How many people can {n} hold?|What is the capacity of {n}?|How many people does {n} have room for?",
        ),
        A(
            "product",
            Names.product,
            "{n} is best known for {v}|The main product of {n} is {v}|{n} makes {v}|{n} sells a product called {v}",
            "What does {n} make?|What is the main product of {n}?|Which product is {n} known for?|What is the product of {n} called?",
        ),
        A(
            "director",
            Names.person,
            "{n} is led by {v}|{v} leads {n}|The director of {n} is {v}|{v} is in charge of {n}|{v} has been head of {n} for some years",
            "Who leads {n}?|Who is the director of {n}?|Who is in charge of {n}?|Who is the head of {n}?",
        ),
        A(
            "owner",
            Names.person,
            "{n} belongs to {v}|The owner of {n} is {v}|{v} owns {n}|{n} is owned by {v}",
            "Who owns {n}?|Who is the owner of {n}?|To whom does {n} belong?|Who does {n} belong to?",
        ),
        A(
            "maintainer",
            Names.person,
            "{n} is maintained by {v}|{v} maintains {n}|The maintainer of {n} is {v}|{v} takes care of {n}",
            "Who maintains {n}?|Who is the maintainer of {n}?|Who takes care of {n}?",
        ),
        A(
            "author",
            Names.person,
            "{n} was written by {v}|{v} wrote {n}|The author of {n} is {v}|{n} is the work of {v}",
            "Who wrote {n}?|Who is the author of {n}?|What is the name of the author of {n}?",
        ),
        A(
            "version",
            Names.version,
            "The current version of {n} is {v}|{n} is at version {v}|The latest release of {n} is {v}|Version {v} of {n} is the newest one",
            "What is the current version of {n}?|Which version is {n} at?|What is the latest release of {n}?|What version of {n} is the newest?",
        ),
        A(
            "release_date",
            Names.date,
            "{n} was released on {v}|The release of {n} took place on {v}|{n} came out on {v}",
            "When was {n} released?|What is the release date of {n}?|When did {n} come out?|On which date was {n} released?",
        ),
        A(
            "license",
            lambda n: n.rng.choice(
                ("MIT", "Apache-2.0", "BSD-3-Clause", "ISC", "MPL-2.0", "Unlicense")
            ),
            "{n} is available under the {v} licence|{n} uses the {v} license|The licence of {n} is {v}",
            "Under which licence is {n} available?|What is the license of {n}?|Which license does {n} use?",
            closed=True,
        ),
        A(
            "language",
            lambda n: n.rng.choice(
                (
                    "TypeScript",
                    "Python",
                    "Rust",
                    "Go",
                    "C++",
                    "Java",
                    "Kotlin",
                    "Erlang",
                    "Swift",
                    "Zig",
                )
            ),
            "{n} is written in {v}|{n} was developed in {v}|The code of {n} is {v}",
            "In which language is {n} written?|What language is {n} written in?|Which programming language does {n} use?",
            closed=True,
        ),
        A(
            "port",
            lambda n: n.number(1024, 65_000),
            "{n} listens on port {v}|The port of {n} is {v}|{n} accepts connections on port {v}|Clients reach {n} on port {v}",
            "Which port does {n} listen on?|What is the port of {n}?|On which port does {n} accept connections?|What port does {n} use?",
        ),
        A(
            "timeout",
            lambda n: n.quantity(("seconds", "ms", "milliseconds", "minutes"), 2, 900),
            "The timeout of {n} is {v}|{n} gives up after {v}|Requests to {n} time out after {v}|{n} waits {v} before it fails",
            "What is the timeout of {n}?|After how long does {n} time out?|How long does {n} wait before it fails?|How long is the timeout of {n}?",
        ),
        A(
            "address",
            Names.address,
            "The address of {n} is {v}|{n} runs at {v}|{n} can be reached at {v}",
            "What is the address of {n}?|At which address can {n} be reached?|What is the IP address of {n}?",
        ),
        A(
            "memory",
            lambda n: n.quantity(("GB", "MB", "GiB", "MiB"), 2, 1024),
            "{n} has {v} of memory|{n} needs {v} of memory|The memory limit of {n} is {v}|{n} uses at most {v} of memory",
            "How much memory does {n} have?|What is the memory of {n}?|How much memory is given to {n}?|How much RAM does {n} have?",
        ),
        A(
            "team",
            lambda n: n.owned(lambda: n.rng.choice(("Team ", "the ")) + n.pair())
            + n.rng.choice((" team", " group")),
            "{n} is run by {v}|{v} is responsible for {n}|{v} operates {n}",
            "Which team runs {n}?|Who is responsible for {n}?|Who operates {n}?",
        ),
        A(
            "depends_on",
            Names.service,
            "{n} depends on {v}|{n} needs {v} in order to start|{n} sends its requests to {v}|{n} calls {v} for each request",
            "What does {n} depend on?|Which service does {n} depend on?|What does {n} need?|Which service does {n} call?",
        ),
        A(
            "storage",
            Names.product,
            "{n} keeps its data in {v}|{n} stores its data in {v}|The data of {n} is kept in {v}",
            "Where does {n} keep its data?|Where does {n} store its data?|In which system is the data of {n} kept?|What does {n} use to store its data?",
        ),
        A(
            "limit",
            lambda n: n.big(2, 50_000),
            "{n} accepts at most {v} requests per minute|{n} is limited to {v} requests per minute|The rate limit of {n} is {v} requests per minute",
            "How many requests per minute does {n} accept?|What is the rate limit of {n}?|How many requests per minute may {n} receive?",
        ),
        A(
            "cause",
            lambda n: n.rng.choice(
                (
                    "a full disk",
                    "an expired certificate",
                    "a wrong configuration",
                    "a memory leak",
                    "a slow query",
                    "a broken cable",
                    "a missing index",
                    "a DNS error",
                    "a power failure",
                    "a race condition",
                )
            )
            + " in "
            + n.service(),
            "{n} was caused by {v}|The cause of {n} was {v}|Engineers traced {n} to {v}",
            "What caused {n}?|What was the cause of {n}?|What was the reason for {n}?",
        ),
        A(
            "start_time",
            Names.clock,
            "{n} starts at {v}|{n} begins at {v}|The start of {n} is at {v}",
            "When does {n} start?|At what time does {n} start?|At what time does {n} begin?|What is the start time of {n}?",
        ),
        A(
            "duration",
            lambda n: n.quantity(("minutes", "hours", "days", "weeks"), 2, 240),
            "{n} lasts {v}|{n} takes {v}|The duration of {n} is {v}|{n} goes on for {v}",
            "How long does {n} last?|How long does {n} take?|What is the duration of {n}?|How much time does {n} take?",
        ),
        A(
            "date",
            Names.date,
            "{n} takes place on {v}|{n} is planned for {v}|{n} will be held on {v}|The date of {n} is {v}",
            "When does {n} take place?|What is the date of {n}?|On which date is {n}?|When is {n}?",
        ),
        A(
            "deadline",
            Names.date,
            "The deadline of {n} is {v}|{n} must be finished by {v}|{n} is due on {v}",
            "What is the deadline of {n}?|When must {n} be finished?|When is {n} due?|By which date must {n} be done?",
        ),
        A(
            "room",
            lambda n: n.owned(lambda: "room " + str(n.rng.randint(1, 999)))
            if n.rng.random() < 0.5
            else "the " + n.pair() + " Hall",
            "{n} is held in {v}|{n} takes place in {v}|The people of {n} meet in {v}",
            "Where is {n} held?|In which room is {n} held?|Where does {n} take place?|In which room is {n}?",
        ),
        A(
            "speaker",
            Names.person,
            "The main speaker of {n} is {v}|{v} gives the opening talk of {n}|{v} speaks first at {n}",
            "Who is the main speaker of {n}?|Who gives the opening talk of {n}?|Who speaks first at {n}?",
        ),
        A(
            "customer",
            Names.person,
            "{n} was placed by {v}|The customer of {n} is {v}|{v} is the customer behind {n}",
            "Who placed {n}?|Who is the customer of {n}?|What is the name of the customer of {n}?",
        ),
        A(
            "total",
            Names.money,
            "The total of {n} is {v}|{n} comes to {v}|{n} adds up to {v}",
            "What is the total of {n}?|How much is {n}?|What does {n} come to?|What amount does {n} add up to?",
        ),
        A(
            "birthplace",
            Names.place,
            "{n} was born in {v}|{n} comes from {v}|The birthplace of {n} is {v}",
            "Where was {n} born?|What is the birthplace of {n}?|Where does {n} come from?|In which town was {n} born?",
        ),
        A(
            "birth_year",
            Names.year,
            "{n} was born in {v}|The birth year of {n} is {v}|{n} came into the world in {v}",
            "When was {n} born?|In which year was {n} born?|What is the birth year of {n}?",
        ),
        A(
            "employer",
            Names.company,
            "{n} works for {v}|{n} is employed by {v}|The employer of {n} is {v}|{n} took a job at {v}",
            "Where does {n} work?|Who does {n} work for?|Which company employs {n}?|What is the employer of {n}?",
        ),
        A(
            "occupation",
            lambda n: n.rng.choice(
                (
                    "a nurse",
                    "a teacher",
                    "a software engineer",
                    "a geologist",
                    "a baker",
                    "a pilot",
                    "a carpenter",
                    "a botanist",
                    "an accountant",
                    "a painter",
                    "a translator",
                    "a surveyor",
                    "an electrician",
                    "a librarian",
                    "a chemist",
                    "a sailor",
                )
            ),
            "{n} is {v}|{n} works as {v}|By profession {n} is {v}",
            "What is the occupation of {n}?|What does {n} do for a living?|What is the profession of {n}?|What does {n} work as?",
            closed=True,
        ),
        A(
            "email",
            Names.email,
            "The email address of {n} is {v}|{n} can be reached at {v}|Write to {n} at {v}",
            "What is the email address of {n}?|At which email address can {n} be reached?|How can {n} be reached by email?",
        ),
        A(
            "colour",
            Names.colour,
            "{n} is painted {v}|The colour of {n} is {v}|{n} is {v}",
            "What colour is {n}?|What is the color of {n}?|Which colour does {n} have?",
            closed=True,
        ),
        A(
            "material",
            lambda n: n.rng.choice(
                (
                    "granite",
                    "steel",
                    "oak",
                    "concrete",
                    "brick",
                    "glass",
                    "copper",
                    "bamboo",
                    "limestone",
                    "aluminium",
                    "clay",
                    "marble",
                )
            ),
            "{n} is made of {v}|{n} consists of {v}|The material of {n} is {v}",
            "What is {n} made of?|Which material is {n} made of?|What is the material of {n}?",
            closed=True,
        ),
        A(
            "discovered_by",
            Names.person,
            "{n} was discovered by {v}|{v} discovered {n}|{n} was first described by {v}",
            "Who discovered {n}?|Who first described {n}?|What is the name of the person who discovered {n}?",
        ),
        A(
            "temperature",
            lambda n: n.quantity(("degrees", "degrees Celsius", "C"), 1, 400),
            "The temperature of {n} is {v}|{n} is kept at {v}|{n} reaches {v}",
            "What is the temperature of {n}?|How hot is {n}?|At which temperature is {n} kept?",
        ),
        A(
            "captain",
            Names.person,
            "The captain of {n} is {v}|{v} commands {n}|{n} sails under {v}",
            "Who is the captain of {n}?|Who commands {n}?|Under whom does {n} sail?",
        ),
        A(
            "home_port",
            Names.place,
            "The home port of {n} is {v}|{n} sails from {v}|{n} is registered in {v}",
            "What is the home port of {n}?|From where does {n} sail?|In which port is {n} registered?",
        ),
        A(
            "speed",
            lambda n: n.quantity(("knots", "km/h", "mph", "metres per second"), 3, 900),
            "{n} reaches a speed of {v}|The top speed of {n} is {v}|{n} travels at {v}",
            "How fast is {n}?|What is the top speed of {n}?|What speed does {n} reach?",
        ),
        A(
            "warranty",
            lambda n: n.quantity(("years", "months"), 2, 60),
            "{n} comes with a warranty of {v}|The warranty of {n} lasts {v}|{n} is covered for {v}",
            "How long is the warranty of {n}?|What warranty does {n} have?|For how long is {n} covered?",
        ),
        A(
            "battery",
            lambda n: n.quantity(("hours", "days"), 2, 96),
            "The battery of {n} lasts {v}|{n} runs {v} on one charge|One charge keeps {n} going for {v}",
            "How long does the battery of {n} last?|How long does {n} run on one charge?|What is the battery life of {n}?",
        ),
        A(
            "teacher",
            Names.person,
            "{n} is taught by {v}|{v} teaches {n}|The teacher of {n} is {v}",
            "Who teaches {n}?|Who is the teacher of {n}?|By whom is {n} taught?",
        ),
        A(
            "students",
            lambda n: n.big(5, 4_000),
            "{n} has {v} students|{v} students take {n}|{v} students signed up for {n}",
            "How many students take {n}?|How many students does {n} have?|How many students signed up for {n}?",
        ),
        A(
            "platform",
            lambda n: n.number(1, 40),
            "{n} leaves from platform {v}|The platform of {n} is {v}|Passengers board {n} at platform {v}",
            "From which platform does {n} leave?|What is the platform of {n}?|At which platform do passengers board {n}?",
        ),
        A(
            "destination",
            Names.place,
            "{n} goes to {v}|The destination of {n} is {v}|{n} ends in {v}",
            "Where does {n} go?|What is the destination of {n}?|Where does {n} end?",
        ),
        A(
            "opening",
            Names.clock,
            "{n} opens at {v}|The doors of {n} open at {v}|Guests may enter {n} from {v}",
            "When does {n} open?|At what time does {n} open?|From what time may guests enter {n}?",
        ),
        A(
            "code",
            Names.identifier,
            "The code of {n} is {v}|{n} carries the code {v}|{n} is listed as {v}",
            "What is the code of {n}?|Which code does {n} carry?|Under which code is {n} listed?",
        ),
        A(
            "award",
            lambda n: "the " + n.pair() + n.rng.choice((" Prize", " Medal", " Award")),
            "{n} won {v}|{n} received {v}|{v} was given to {n}",
            "Which award did {n} win?|What did {n} receive?|Which prize was given to {n}?",
        ),
        A(
            "command",
            lambda n: n.owned(
                lambda: f"{n.syllables(1, 2)} {n.rng.choice(('run', 'start', 'build', 'check', 'sync', 'init', 'serve', 'apply', 'list'))}"
            ),
            "{n} is started with `{v}`|To start {n}, run `{v}`|The command for {n} is `{v}`",
            "How is {n} started?|Which command starts {n}?|What is the command for {n}?",
        ),
        A(
            "file",
            lambda n: n.owned(
                lambda: f"/{n.rng.choice(('etc', 'var/lib', 'opt', 'srv', 'home'))}/{n.syllables(1, 2)}/{n.rng.choice(('config.yaml', 'main.conf', 'settings.json', 'data.db', 'app.toml', 'state.log'))}"
            ),
            "{n} reads its settings from {v}|The configuration of {n} is in {v}|The settings file of {n} is {v}",
            "From which file does {n} read its settings?|Where is the configuration of {n}?|What is the settings file of {n}?",
        ),
    ]
}
