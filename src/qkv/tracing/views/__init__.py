"""What a trace shows: exact weights of any size, tokens as people read them, words, and the file on the disk.

Read in this order: `traces`, `attention_maps`, `parallel_tiles`, `layer_scan`, `token_labels`, `word_map`, `head_ranking`,
`trace_file`.
"""
