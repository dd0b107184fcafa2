"""Reads the golden event file with TensorBoard's own reader and writes what it read to read.json. It needs the package tensorboard."""
import base64
import json
import pathlib

from tensorboard.backend.event_processing import event_file_loader

here = pathlib.Path(__file__).parent
points = []
for event in event_file_loader.LegacyEventFileLoader(str(here / "events.out.tfevents.golden")).Load():
    if event.HasField("file_version"):
        assert event.file_version == "brain.Event:2"
        continue
    values = event.summary.value
    scalars = {value.tag: value.simple_value for value in values if value.HasField("simple_value")}
    texts = {value.tag: value.tensor.string_val[0].decode() for value in values if value.metadata.plugin_data.plugin_name == "text"}
    images = {value.tag: base64.b64encode(value.image.encoded_image_string).decode() for value in values if value.HasField("image")}
    points.append({"Step": event.step, "WallTime": event.wall_time, "Scalars": scalars, "Texts": texts, "Images": images})
(here / "read.json").write_text(json.dumps(points, indent=1) + "\n")
