"""The families of rendered objects: what they are called, which states they pass through, how they
are drawn, and the words for each state."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dejacue_paper.data.rendered import house, kitchen, outdoors
from dejacue_paper.data.rendered.story import Family

_ALL = (
    Family(
        "cup",
        "cup",
        {
            "empty": (
                "empty cup",
                "cup with nothing in it",
                "cup without any drink",
                "clear cup holding no liquid",
                "drained cup",
            ),
            "half full": (
                "half full cup",
                "cup filled halfway",
                "cup with some drink left in it",
                "cup with liquid up to the middle",
                "half empty cup",
            ),
            "full": (
                "full cup",
                "cup filled to the brim",
                "cup full of drink",
                "cup with liquid up to the rim",
                "filled up cup",
            ),
        },
        kitchen.cup,
    ),
    Family(
        "fruit",
        "fruit",
        {
            "whole": (
                "whole fruit",
                "uncut fruit",
                "intact fruit with its skin on",
                "one round fruit in one piece",
                "fruit before it is cut",
            ),
            "sliced": (
                "sliced fruit",
                "fruit cut into pieces",
                "fruit cut open, showing its flesh",
                "slices of fruit",
                "fruit that has been cut",
            ),
        },
        kitchen.fruit,
        progressive=False,
        reversible=False,
    ),
    Family(
        "candle",
        "candle",
        {
            "tall": (
                "tall candle",
                "long new candle",
                "candle that has hardly burned",
                "high candle in its holder",
                "fresh candle of full height",
            ),
            "half burnt": (
                "half burnt candle",
                "candle burned halfway",
                "candle of half its height",
                "medium candle partly burned",
                "candle that is half gone",
            ),
            "burnt down": (
                "burnt down candle",
                "short stub of a candle",
                "candle nearly used up",
                "low candle stub in molten wax",
                "candle burned to the end",
            ),
        },
        house.candle,
        reversible=False,
        animated=True,
    ),
    Family(
        "toast",
        "slice of bread",
        {
            "white": (
                "white slice of bread",
                "untoasted bread",
                "pale bread before toasting",
                "raw soft slice of bread",
                "light slice of bread",
            ),
            "golden": (
                "golden toast",
                "golden brown slice of toast",
                "nicely toasted bread",
                "bread toasted to a light brown",
                "crisp golden slice of bread",
            ),
            "burnt": (
                "burnt toast",
                "black burned slice of bread",
                "charred toast",
                "bread toasted far too long",
                "dark blackened toast",
            ),
        },
        kitchen.toast,
        reversible=False,
    ),
    Family(
        "box",
        "box",
        {
            "closed": (
                "closed box",
                "box with its lid down",
                "shut box",
                "box that is not open",
                "sealed box",
            ),
            "open": (
                "open box",
                "box with its lid up",
                "opened box",
                "box whose inside can be seen",
                "box with a raised lid",
            ),
        },
        house.box,
    ),
    Family(
        "bottle",
        "bottle",
        {
            "capped": (
                "capped bottle",
                "bottle with its cap on",
                "bottle closed with a cap",
                "bottle with a lid on its neck",
                "bottle still capped",
            ),
            "uncapped": (
                "uncapped bottle",
                "bottle with its cap off",
                "bottle without a cap on it",
                "bottle with an open neck",
                "opened bottle",
            ),
        },
        kitchen.bottle,
        progressive=False,
    ),
    Family(
        "bulb",
        "light bulb",
        {
            "off": (
                "light bulb that is off",
                "dark light bulb",
                "unlit bulb",
                "bulb switched off",
                "bulb giving no light",
            ),
            "on": (
                "light bulb that is on",
                "bright light bulb",
                "lit bulb",
                "bulb switched on",
                "glowing bulb",
            ),
        },
        house.bulb,
        progressive=False,
        instant=True,
    ),
    Family(
        "cards",
        "cards",
        {
            "one stack": (
                "one stack of cards",
                "cards in a single pile",
                "whole deck in one pile",
                "all cards on top of each other",
                "undivided deck of cards",
            ),
            "two stacks": (
                "two stacks of cards",
                "cards in two piles",
                "deck split into two piles",
                "cards parted side by side",
                "deck of cards cut in two",
            ),
        },
        outdoors.cards,
        progressive=False,
    ),
    Family(
        "flower",
        "flower",
        {
            "bud": (
                "flower bud",
                "closed flower",
                "flower that has not opened yet",
                "green bud on a stem",
                "flower still folded in its bud",
            ),
            "half open": (
                "half open flower",
                "flower beginning to bloom",
                "partly opened flower",
                "flower with petals half spread",
                "flower opening up",
            ),
            "blooming": (
                "blooming flower",
                "fully open flower",
                "flower in full bloom",
                "flower with all petals spread",
                "wide open blossom",
            ),
        },
        outdoors.flower,
    ),
    Family(
        "balloon",
        "balloon",
        {
            "flat": (
                "flat balloon",
                "deflated balloon",
                "limp balloon without air",
                "empty wrinkled balloon",
                "balloon not blown up",
            ),
            "inflated": (
                "inflated balloon",
                "balloon full of air",
                "big round balloon",
                "balloon blown up",
                "tight balloon",
            ),
        },
        outdoors.balloon,
    ),
    Family(
        "traffic light",
        "traffic light",
        {
            "red": (
                "red traffic light",
                "traffic light showing red",
                "traffic light telling to stop",
                "stop light with the top lamp lit",
                "traffic signal on red",
            ),
            "yellow": (
                "yellow traffic light",
                "traffic light showing yellow",
                "amber traffic light",
                "traffic light with the middle lamp lit",
                "traffic signal on yellow",
            ),
            "green": (
                "green traffic light",
                "traffic light showing green",
                "traffic light telling to go",
                "traffic light with the bottom lamp lit",
                "traffic signal on green",
            ),
        },
        outdoors.traffic_light,
        progressive=False,
        instant=True,
    ),
    Family(
        "umbrella",
        "umbrella",
        {
            "folded": (
                "folded umbrella",
                "closed umbrella",
                "umbrella rolled up",
                "umbrella put together",
                "narrow furled umbrella",
            ),
            "open": (
                "open umbrella",
                "umbrella spread out",
                "unfolded umbrella",
                "umbrella put up against the rain",
                "wide umbrella",
            ),
        },
        house.umbrella,
    ),
    Family(
        "book",
        "book",
        {
            "closed": (
                "closed book",
                "shut book",
                "book with its cover closed",
                "book seen from its cover",
                "book not opened",
            ),
            "open": (
                "open book",
                "opened book",
                "book with its pages showing",
                "book lying open",
                "book with two pages spread",
            ),
        },
        house.book,
        progressive=False,
    ),
    Family(
        "pizza",
        "pizza",
        {
            "whole": (
                "whole pizza",
                "complete pizza",
                "round pizza with no slice missing",
                "uneaten pizza",
                "pizza with all its slices",
            ),
            "half eaten": (
                "half eaten pizza",
                "half a pizza",
                "pizza with half of it gone",
                "pizza with four slices left",
                "partly eaten pizza",
            ),
            "last slice": (
                "last slice of pizza",
                "single slice of pizza on a plate",
                "pizza nearly all eaten",
                "only one slice of pizza left",
                "almost empty pizza plate",
            ),
        },
        kitchen.pizza,
        reversible=False,
    ),
)

FAMILIES: Mapping[str, Family] = MappingProxyType({family.name: family for family in _ALL})
