"""Weights in and out: runs of qkv, Hugging Face folders, GGUF, ONNX and CTranslate2 files, adapters, 8-bit weights.

Read in this order: `locate`, `model_files`, `tensor_files`, `families`, `binary_reader`, `gguf`, `gguf_layouts`,
`gguf_settings`, `onnx`, `ctranslate2`, `open_model`, `load_report`, `hf_export`, `adapters`, `quantise`.
"""

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .model_files import load as load

__getattr__, __dir__, __all__ = lazy(__name__, load="model_files")
