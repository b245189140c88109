"""What a trace shows: exact weights of any size, tokens as people read them, words, and the file on the disk.

Read in this order: `trace_parts`, `traces`, `attention_maps`, `parallel_tiles`, `layer_scan`, `token_labels`, `word_map`,
`head_ranking`, `trace_schema`, `trace_file`, `demo_traces`.
"""
