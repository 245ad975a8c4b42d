"""Facts of software and of orders: versions, ports, limits, prices, dates."""

from training.data.attribute import attribute as A
from training.data.names import Names

SOFTWARE_FACTS = (
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
        "deadline",
        Names.date,
        "The deadline of {n} is {v}|{n} must be finished by {v}|{n} is due on {v}",
        "What is the deadline of {n}?|When must {n} be finished?|When is {n} due?|By which date must {n} be done?",
    ),
    A(
        "total",
        Names.money,
        "The total of {n} is {v}|{n} comes to {v}|{n} adds up to {v}",
        "What is the total of {n}?|How much is {n}?|What does {n} come to?|What amount does {n} add up to?",
    ),
    A(
        "email",
        Names.email,
        "The email address of {n} is {v}|{n} can be reached at {v}|Write to {n} at {v}",
        "What is the email address of {n}?|At which email address can {n} be reached?|How can {n} be reached by email?",
    ),
    A(
        "code",
        Names.identifier,
        "The code of {n} is {v}|{n} carries the code {v}|{n} is listed as {v}",
        "What is the code of {n}?|Which code does {n} carry?|Under which code is {n} listed?",
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
)
