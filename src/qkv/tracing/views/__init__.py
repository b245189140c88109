"""Views of a trace: exact weights at any length, labels of tokens, words, and the trace file.

Read in this order: `trace_parts`, `traces`, `attention_maps`, `parallel_tiles`, `layer_scan`, `token_labels`, `word_map`,
`head_ranking`, `trace_schema`, `trace_file`, `demo_traces`.
"""
