"""Record traces: run qkv's own models and those of transformers, and keep their q, k and v.

Read in this order: `recorder`, `model_protocol`, `native_model`, `hf_model`, `tokenizer_protocol`, `chunking`, `streaming`,
`hf_trace`, `hf_inputs`, `hf_attention`, `hf_mixers`, `hf_eager`.
"""
