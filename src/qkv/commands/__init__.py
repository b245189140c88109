"""One file per verb of the command line: EXAMPLES, `arguments(parser)`, which adds the arguments of the verb, and `run(options)`.

Read in this order: `steps`, `matrix_input`, `masks`, `learn`, `check`, `check_targets`, `check_fixes`, `data`,
`train`, `eval`, `generate`, `chat`, `fill`, `translate`, `classify`, `caption`, `export`, `models`, `see`,
`importance`, `studio`, `lab`. What they share: `model_options`, `text_input`, `output_path`,
`option_checks`.
"""
