"""Studies of heads: patterns, grammar, and the effect of changing or removing a head.

Read in this order: `survey`, `pattern_table`, `patterns`, `induction`, `edits`, `effects`, `ablation`, `conllu`, `syntax`,
`caption_attention`.
"""
