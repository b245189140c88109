// Adds tiles for long texts to maps. Single-file pages don't load it: their source has no tiles.

import { MapElement } from "./map.js";
import { Minimap } from "./minimap.js";
import { Tiles } from "./tiles.js";

MapElement.long = {
  tiles: (view, pool, arrived) => new Tiles(view, pool, arrived),
  minimap: (move) => new Minimap(move),
};
