"""Reads the golden event file with TensorBoard's own reader and writes what it read to read.json. It needs the package tensorboard."""
import json
import pathlib

from tensorboard.backend.event_processing import event_file_loader

here = pathlib.Path(__file__).parent
points = []
for event in event_file_loader.LegacyEventFileLoader(str(here / "events.out.tfevents.golden")).Load():
    if event.HasField("file_version"):
        assert event.file_version == "brain.Event:2"
        continue
    scalars = {value.tag: value.simple_value for value in event.summary.value}
    points.append({"Step": event.step, "WallTime": event.wall_time, "Scalars": scalars})
(here / "read.json").write_text(json.dumps(points, indent=1) + "\n")
