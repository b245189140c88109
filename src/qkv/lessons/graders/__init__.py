"""The graders of the exercises: questions, known wrong answers and hints.

Read in this order: `by_hand`, `scores`, `scaling`, `softmax`, `weighted_sum`, `projections`, `causal_mask`,
`padding_mask`, `both_masks`, `cross_attention`, `split_heads`, `merge_heads`, `sinusoidal`, `rotary`,
`grouped_heads`, `kv_cache`, `encoder_layer`, `tiny_gpt`, `linear_attention`, `retention`, `delta_rule`.
"""
