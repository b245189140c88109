"""Exercises, from q·k by hand to a GPT that trains: `qkv learn`.

Each is a pair of files. `exercises/NAME.py` is the exercise in both languages, solved; the lines between `# hole` and
`# end` are removed from the learner's copy. `graders/NAME.py` has the questions, how to compute the expected results, the
known wrong answers with a hint for each, and general hints.

Read in this order: `lesson`, `questions`, `outcome`, `diagnosis`, `grade`, `grading_process`, `exercise_folder`, `module_questions`, `exercises`, `graders`.
"""
