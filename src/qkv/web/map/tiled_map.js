// Teaches maps to draw long texts from tiles. Pages in one file go without: their source has none.

import { MapElement } from "./map.js";
import { Minimap } from "./minimap.js";
import { Tiles } from "./tiles.js";

MapElement.long = {
  tiles: (view, pool, arrived) => new Tiles(view, pool, arrived),
  minimap: (move) => new Minimap(move),
};
