"""Folders of the data sets of this field → clips: videos, masks, true windows, words.

open_dataset recognises a layout and reads it; each layout is a module with

recognise(folder)   whether it looks like this one; looks at names only
read(folder)        a Dataset
NEEDS               what the folder must hold, in a sentence
"""

from dejacue.data.layouts._open import READERS, open_dataset
from dejacue.data.layouts._records import Clip, Dataset, UnusableDataset
from dejacue.data.layouts._write import (
    clip_rows,
    manifest_rows,
    vocabulary_documents,
    write_manifest,
    write_vocabularies,
)

__all__ = [
    "READERS",
    "Clip",
    "Dataset",
    "UnusableDataset",
    "clip_rows",
    "manifest_rows",
    "open_dataset",
    "vocabulary_documents",
    "write_manifest",
    "write_vocabularies",
]
