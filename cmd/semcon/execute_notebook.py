"""Executes one notebook with the Go kernel and writes the executed copy and its HTML.

Usage: execute_notebook.py SOURCE COPY HTML TIMEOUT_SECONDS KERNEL

Says on standard output, one JSON object a line, how many code cells there are, which one starts, which one is done, and what went
wrong: {"total": 8}, {"start": 3}, {"done": 3}, {"failed": 4, "error": "...", "stderr": "..."}. Cells are counted as Jupyter
numbers them. The copy and the HTML are written in any case, so that a failed run can be looked at. Exit status 1 after a failure.
"""

import json
import os
import sys

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, CellExecutionError
from nbconvert import HTMLExporter
from nbconvert.preprocessors import CoalesceStreamsPreprocessor


def say(**message):
    print(json.dumps(message), flush=True)


def write(path, text):
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".part", path)


def main(source, copy, page, timeout, kernel):
    notebook = nbformat.read(source, as_version=4)
    cells = [i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code" and cell.source.strip()]
    number = {index: n for n, index in enumerate(cells, start=1)}
    running = 0

    def start(cell, cell_index):
        nonlocal running
        if cell_index in number:
            running = number[cell_index]
            say(start=running)

    def done(cell, cell_index, execute_reply):
        if execute_reply["content"]["status"] == "ok" and cell_index in number:
            say(done=number[cell_index])

    client = NotebookClient(
        notebook,
        timeout=int(timeout) or None,
        kernel_name=kernel,
        resources={"metadata": {"path": os.path.dirname(os.path.abspath(source))}},
        on_cell_start=start,
        on_cell_executed=done,
    )
    say(total=len(cells))
    failure = None
    try:
        client.execute()
    except CellExecutionError as error:
        failure = error.evalue
    except (CellControlSignal, RuntimeError) as error:  # Timeouts and kernels that died.
        failure = str(error)
    if failure is not None:
        outputs = notebook.cells[cells[running - 1]].get("outputs", []) if running else []
        stderr = "".join(o["text"] for o in outputs if o.output_type == "stream" and o.name == "stderr")
        say(failed=running, error=failure, stderr=stderr)
    notebook, _ = CoalesceStreamsPreprocessor().preprocess(notebook, {})  # The kernel cuts texts by time. What a carriage return overwrote goes, too.
    name = os.path.splitext(os.path.basename(source))[0]
    html, _ = HTMLExporter().from_notebook_node(notebook, resources={"metadata": {"name": name}})
    write(copy, nbformat.writes(notebook))
    write(page, html)
    return failure is not None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
