"""Exercises, from q·k by hand to a GPT that trains: `qkv learn`.

Each is a pair of files. `exercises/NAME.py` is what a person gets, in both languages and solved; what stands between
`# hole` and `# end` is cut out before it is copied. `graders/NAME.py` knows what to ask of an answer, what is right, which
wrong answers people give, and what to say to each.

Read in this order: `lesson`, `questions`, `outcome`, `diagnosis`, `grade`, `grading_process`, `exercise_folder`, `module_questions`, `exercises`, `graders`.
"""
