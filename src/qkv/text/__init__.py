"""Text and tokens: tokenizers, corpora, sentence pairs and synthetic tasks. NumPy in and out; no torch.

Read in this order: `tokenizer`, `library_tokenizer`, `vocabulary`, `sentencepiece`, `imported_tokenizers`,
`tokenizer_folder`, `generation_defaults`, `chat_templates`, `template_process`, `corpus`, `shards`, `dataset`,
`length_batches`, `pairs`, `labelled_texts`, `conversations`, `mlm_masking`, `seeded_rng`, `dates`, `sequence_tasks`,
`picture_tokens`.
"""

from .corpus import Corpus
from .dataset import Dataset
from .dates import date_pair, date_tokenizer
from .labelled_texts import LabelledTexts, labels_of, read_labelled
from .mlm_masking import mlm
from .pairs import PairBatch, Pairs, PairStream, as_tsv, read_pairs, split_pairs
from .sequence_tasks import sequence_pairs, sequences
from .shards import prepare
from .tokenizer import BPE, Bytes, Characters, Tokenizer
from .tokenizer_folder import load
from .vocabulary import choose, reason, train_tokenizer

__all__ = [
    "BPE",
    "Bytes",
    "Characters",
    "Corpus",
    "Dataset",
    "LabelledTexts",
    "PairBatch",
    "PairStream",
    "Pairs",
    "Tokenizer",
    "as_tsv",
    "choose",
    "date_pair",
    "date_tokenizer",
    "labels_of",
    "load",
    "mlm",
    "prepare",
    "read_labelled",
    "read_pairs",
    "reason",
    "sequence_pairs",
    "sequences",
    "split_pairs",
    "train_tokenizer",
]
