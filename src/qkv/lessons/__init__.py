"""Exercises, from q·k by hand to a GPT that trains: `qkv learn`.

Each is a pair of files. `exercises/NAME.py` is what a person gets, in both languages and solved; what stands between
`# hole` and `# end` is cut out before it is copied. `graders/NAME.py` knows what to ask of an answer, what is right, which
wrong answers people give, and what to say to each.

    lesson.py            what a lesson is, their order, and how an exercise is written out in one language
    grade.py             an answer → right, or what is wrong with it, in words
    grading_process.py   the same in a process of its own, with limits
    exercise_folder.py   the person's folder: what was copied, solved, hinted
"""
