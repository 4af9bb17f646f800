"""The process that runs the file of a learner.

``python -m regard.learn.child FOLDER`` reads ``job.json`` and ``arguments.npz`` in the folder, executes the file and
calls its function once for each case. Then it writes ``report.json`` and ``results.npz``. It imports NumPy and no other
room of Regard, so that it starts quickly.
"""
