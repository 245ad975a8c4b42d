"""The functions that generated chats can call: parameters, requests, replies and results."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from training.data.names import WORDS, Names

Draw = Callable[[Names], Any]


@dataclass(frozen=True)
class Tool:
    """A function: its parameters, how people ask for it, and what it returns."""

    name: str
    description: str
    parameters: dict[str, tuple[str, str, Draw]]
    """Name → (JSON type, description, draw)."""
    requests: tuple[str, ...]
    reply: str
    result: dict[str, Draw]


def number(low: int, high: int) -> Draw:
    return lambda n: int(n.number(low, high))


def pick(*values: str) -> Draw:
    return lambda n: n.rng.choice(values)


CITY = ("string", "Name of the city", Names.place)
T = Tool
TOOLS: list[Tool] = [
    T(
        "get_weather",
        "Get the current weather of a city",
        {"city": CITY},
        (
            "What is the weather in {city}?",
            "How is the weather in {city} today?",
            "Is it warm in {city}?",
            "Weather in {city}, please.",
        ),
        "In {city} it is {sky} with {degrees} degrees.",
        {"sky": pick("sunny", "cloudy", "rainy", "windy", "clear"), "degrees": number(-10, 38)},
    ),
    T(
        "get_weather",
        "Get the weather for a location",
        {
            "location": ("string", "The city", Names.place),
            "unit": ("string", "celsius or fahrenheit", pick("celsius", "fahrenheit")),
        },
        (
            "What is the weather in {location} in {unit}?",
            "Give me the temperature in {location}, in {unit}.",
        ),
        "The temperature in {location} is {degrees} degrees {unit}.",
        {"degrees": number(-10, 99)},
    ),
    T(
        "get_time",
        "Get the local time of a city",
        {"city": CITY},
        ("What time is it in {city}?", "Tell me the local time in {city}."),
        "It is {time} in {city}.",
        {"time": Names.clock},
    ),
    T(
        "search_documents",
        "Search the document store",
        {
            "query": ("string", "Search words", Names.pair),
            "limit": ("integer", "How many results", number(1, 50)),
        },
        (
            "Find {limit} documents about {query}.",
            "Search for {query} and show {limit} results.",
            "Look up {query}; {limit} results are enough.",
        ),
        "I found {count} documents about {query}.",
        {"count": number(0, 50)},
    ),
    T(
        "search",
        "Search the web",
        {"query": ("string", "What to search for", Names.pair)},
        ("Search for {query}.", "Find information about {query}.", "Look up {query}."),
        'The best match for {query} is "{title}".',
        {"title": Names.pair},
    ),
    T(
        "send_email",
        "Send an email",
        {
            "to": ("string", "Address of the receiver", Names.email),
            "subject": ("string", "Subject line", Names.pair),
        },
        (
            "Send an email to {to} with the subject {subject}.",
            "Write to {to}; the subject is {subject}.",
            "Email {to} about {subject}.",
        ),
        "The email to {to} was sent.",
        {"status": pick("sent", "ok", "queued")},
    ),
    T(
        "create_ticket",
        "Create a ticket in the tracker",
        {
            "title": ("string", "Title", Names.pair),
            "priority": ("string", "low, medium or high", pick("low", "medium", "high")),
        },
        (
            "Create a {priority} priority ticket called {title}.",
            "Open a ticket with the title {title} and {priority} priority.",
        ),
        "Ticket {id} was created.",
        {"id": Names.identifier},
    ),
    T(
        "get_order",
        "Look up an order by its id",
        {"order_id": ("string", "Id of the order", Names.identifier)},
        (
            "Where is order {order_id}?",
            "What is the status of order {order_id}?",
            "Look up order {order_id}.",
        ),
        "Order {order_id} is {status}.",
        {"status": pick("shipped", "delivered", "waiting", "cancelled")},
    ),
    T(
        "get_stock",
        "Get how many pieces of a product are in stock",
        {"product": ("string", "Product name", Names.product)},
        (
            "How many {product} are in stock?",
            "Do we have {product} in stock?",
            "Check the stock of {product}.",
        ),
        "There are {count} pieces of {product} in stock.",
        {"count": number(0, 900)},
    ),
    T(
        "convert_currency",
        "Convert an amount between currencies",
        {
            "amount": ("number", "Amount", number(1, 9000)),
            "from": ("string", "Currency code", pick("USD", "EUR", "GBP", "JPY")),
            "to": ("string", "Currency code", pick("CHF", "SEK", "INR", "CAD")),
        },
        ("Convert {amount} {from} to {to}.", "How much is {amount} {from} in {to}?"),
        "{amount} {from} is {value} {to}.",
        {"value": number(1, 9000)},
    ),
    T(
        "add",
        "Add two numbers",
        {
            "a": ("number", "First number", number(1, 9999)),
            "b": ("number", "Second number", number(1, 9999)),
        },
        ("What is {a} plus {b}?", "Add {a} and {b}.", "Calculate {a} + {b}."),
        "The sum is {result}.",
        {"result": number(1, 20000)},
    ),
    T(
        "multiply",
        "Multiply two numbers",
        {
            "a": ("number", "First number", number(1, 999)),
            "b": ("number", "Second number", number(1, 999)),
        },
        ("What is {a} times {b}?", "Multiply {a} by {b}.", "Calculate {a} * {b}."),
        "The product is {result}.",
        {"result": number(1, 99999)},
    ),
    T(
        "set_timer",
        "Set a timer",
        {"minutes": ("integer", "Length in minutes", number(1, 180))},
        (
            "Set a timer for {minutes} minutes.",
            "Wake me in {minutes} minutes.",
            "Start a {minutes} minute timer.",
        ),
        "The timer is set for {minutes} minutes.",
        {"ok": lambda n: True},
    ),
    T(
        "create_event",
        "Add an event to the calendar",
        {
            "title": ("string", "Title", Names.pair),
            "date": ("string", "Date, YYYY-MM-DD", Names.iso_date),
        },
        (
            "Add {title} to my calendar on {date}.",
            "Schedule {title} for {date}.",
            "Create an event called {title} on {date}.",
        ),
        "{title} is in the calendar on {date}.",
        {"ok": lambda n: True},
    ),
    T(
        "get_user",
        "Get a user by email",
        {"email": ("string", "Email address", Names.email)},
        ("Find the user {email}.", "Who is {email}?", "Look up the account of {email}."),
        "The user is {name}.",
        {"name": Names.person},
    ),
    T(
        "restart_service",
        "Restart a service",
        {"service": ("string", "Name of the service", Names.service)},
        (
            "Restart {service}.",
            "Please restart the service {service}.",
            "{service} hangs, restart it.",
        ),
        "{service} was restarted.",
        {"status": pick("running", "ok")},
    ),
    T(
        "get_logs",
        "Read the last log lines of a service",
        {
            "service": ("string", "Name of the service", Names.service),
            "lines": ("integer", "How many lines", number(1, 500)),
        },
        (
            "Show the last {lines} log lines of {service}.",
            "Get {lines} lines of the log of {service}.",
        ),
        "The last line of {service} is: {line}",
        {"line": pick("connection closed", "started", "cache miss", "request failed")},
    ),
    T(
        "book_table",
        "Book a table in a restaurant",
        {
            "restaurant": ("string", "Name", Names.word),
            "people": ("integer", "Number of guests", number(1, 20)),
            "time": ("string", "Time", Names.clock),
        },
        (
            "Book a table for {people} at {restaurant} at {time}.",
            "Reserve {restaurant} for {people} people at {time}.",
        ),
        "The table at {restaurant} is booked for {people} people at {time}.",
        {"booked": lambda n: True},
    ),
    T(
        "get_distance",
        "Distance between two places",
        {"origin": ("string", "Start", Names.place), "destination": ("string", "End", Names.place)},
        (
            "How far is it from {origin} to {destination}?",
            "What is the distance between {origin} and {destination}?",
        ),
        "It is {km} km from {origin} to {destination}.",
        {"km": number(2, 900)},
    ),
    T(
        "translate",
        "Translate a text",
        {
            "text": ("string", "The text", Names.pair),
            "language": (
                "string",
                "Target language",
                pick("French", "German", "Spanish", "Italian"),
            ),
        },
        ('Translate "{text}" to {language}.', 'How do you say "{text}" in {language}?'),
        'The translation is "{result}".',
        {"result": Names.word},
    ),
    T(
        "turn_on_light",
        "Turn on the light of a room",
        {"room": ("string", "Room", pick("kitchen", "bedroom", "hall", "office", "garage"))},
        ("Turn on the light in the {room}.", "Light on in the {room}, please."),
        "The light in the {room} is on.",
        {"ok": lambda n: True},
    ),
    T(
        "play_music",
        "Play music of an artist",
        {"artist": ("string", "Artist", Names.person)},
        ("Play something by {artist}.", "I want to hear {artist}."),
        "Now playing {artist}.",
        {"ok": lambda n: True},
    ),
    T(
        "get_price",
        "Get the price of a product",
        {"product": ("string", "Product", Names.product)},
        ("How much does {product} cost?", "What is the price of {product}?"),
        "{product} costs {price}.",
        {"price": Names.money},
    ),
    T(
        "run_query",
        "Run a query on a table",
        {
            "table": ("string", "Table", lambda n: n.rng.choice(WORDS)),
            "limit": ("integer", "Row limit", number(1, 900)),
        },
        ("Select {limit} rows from the table {table}.", "Show {limit} rows of {table}."),
        "The query returned {rows} rows.",
        {"rows": number(0, 900)},
    ),
    T(
        "list_files",
        "List the files of a folder",
        {"path": ("string", "Folder", lambda n: "/" + n.syllables(1, 2) + "/" + n.syllables(1, 2))},
        ("List the files in {path}.", "What is in the folder {path}?"),
        "The folder {path} has {count} files.",
        {"count": number(0, 400)},
    ),
]
