"""Further descriptions of each state, from fixed templates: a start to edit, not an answer.

The same templates for every state, in the same order: descriptions that are phrased alike differ
in the state alone (docs/words.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dejacue.records import Vocabulary

_WORD = re.compile(r"[^\W\d_]+")
_FUNCTION_WORDS = frozenset(
    _WORD.findall(
        "a an and are as at been being by down for from has in into is "
        "it its no not of off on onto or out over that the this to up with"
    )
)


def content_words(texts: Iterable[str]) -> frozenset[str]:
    """Return the words in small letters, without function words."""
    return (
        frozenset(word for text in texts for word in _WORD.findall(text.lower())) - _FUNCTION_WORDS
    )


TEMPLATES = (
    "{object} that is {state}",
    "{object} that looks {state}",
    "{object} that is {state} now",
    "close-up of {a_object} that is {state}",
    "{object} that is {state}, not {others}",
)
ADJECTIVAL = "{state} {object}"  # where the state is one word
CONSEQUENCE = "{object} with … visible"  # what is seen then and only then, nobody can guess
OBJECT = "object"


def suggest(vocabulary: Vocabulary) -> dict[str, list[str]]:
    """Return state → descriptions that it does not have yet, from its name and the object's."""
    thing = object_of(vocabulary)
    names = {state: in_words(state) for state in vocabulary.states}
    taken = set(vocabulary.descriptions)
    suggestions: dict[str, list[str]] = {}
    for state, words in names.items():
        forms = [ADJECTIVAL, *TEMPLATES] if len(words.split()) == 1 else list(TEMPLATES)
        others = " or ".join(name for rival, name in names.items() if rival != state)
        texts = [
            form.format(object=thing, a_object=with_article(thing), state=words, others=others)
            for form in forms
        ]
        suggestions[state] = [text for text in texts if text not in taken]
        taken.update(texts)
    return suggestions


def object_of(vocabulary: Vocabulary) -> str:
    """Return the vocabulary's object, else the first word that all descriptions share."""
    if vocabulary.object:
        return vocabulary.object
    texts = [text for descriptions in vocabulary.states.values() for text in descriptions]
    if len(texts) < 2:
        return OBJECT
    shared = frozenset.intersection(*(content_words([text]) for text in texts))
    words = re.findall(r"[^\W\d_]+", texts[0].lower())
    return next((word for word in words if word in shared), OBJECT)


def in_words(state: str) -> str:
    """Return post_unscrew as "post unscrew"."""
    return " ".join(re.split(r"[\s_-]+", state.strip("_- \t\r\n"))) or state


def with_article(thing: str) -> str:
    """Return "a cup" or "an apple"."""
    return f"an {thing}" if thing[:1].lower() in "aeiou" else f"a {thing}"
