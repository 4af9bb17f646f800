// @ts-check
/**
 * The types of the viewer's data, which payload.py and encoding.py write.
 *
 * @typedef {{dtype: string, shape: number[], blob: number, unit?: number}} ArrayRef
 *
 * @typedef {{kind: string, [field: string]: any}} MaskSpec
 * @typedef {{kind: string, array?: ArrayRef, parts?: BiasSpec[]}} BiasSpec
 *
 * @typedef {object} SourceSpec
 * @property {string} type "recomputed", "weights", "mean" or "remote"
 * @property {ArrayRef} [q]
 * @property {ArrayRef} [k]
 * @property {ArrayRef} [middle] the mean key of each head; k holds the differences from it
 * @property {ArrayRef} [lse]
 * @property {number} [scale]
 * @property {ArrayRef | null} [v] of the additive score v·tanh(q + k)
 * @property {MaskSpec | null} [mask]
 * @property {BiasSpec | null} [bias]
 * @property {ArrayRef} [codes] stored weights, in steps of each row's largest
 * @property {ArrayRef} [tops]
 * @property {number} [steps]
 * @property {number} [heads] of which this is the mean
 * @property {SourceSpec} [of]
 * @property {number[]} [shape] of the source inside
 * @property {number[]} [image] rows and columns of a picture that was cut into windows
 * @property {number} [side] of a window
 * @property {number} [shift] by which the picture was rolled before
 *
 * The patches of a picture. Keys are in runs of consecutive ones, each with its start and length. `image` is the
 * picture of the document.
 * @typedef {{picture: number, image: number | null, view: string, grid: number[], runs: number[][], size: number[], box: number[], stretched: boolean}} GridSpec
 *
 * The pictures among the tokens of each sequence, and its words in runs.
 * @typedef {{sequences: GridSpec[][], words: number[][][], unplaced: string | null}} LayoutSpec
 *
 * @typedef {object} RecordInfo
 * @property {string} name
 * @property {number | null} layer
 * @property {string} kind
 * @property {string | null} [role] "encoder", "decoder" or "cross" of a model that has all of them, or the name of a tower
 * @property {number[]} shape b, h, q, k
 * @property {boolean} signed whether some weights are negative
 * @property {number[] | null} heads the numbers of the heads in the model; null for all heads
 * @property {number[] | null} queryTokens
 * @property {number[] | null} keyTokens
 * @property {number[] | null} queryGrid
 * @property {number[] | null} keyGrid
 * @property {number} queryExtra
 * @property {number} keyExtra
 * @property {number | null} pictures the layout of its picture tokens
 * @property {string | null} dropped
 * @property {string | null} note an unusual property of the weights
 * @property {SourceSpec} source
 * @property {number} error
 * @property {number} [measuredRows]
 * @property {{codes: ArrayRef, tops: ArrayRef}} [overview]
 *
 * @typedef {object} DocumentInfo
 * @property {string} format
 * @property {string} title
 * @property {RecordInfo[]} records
 * @property {string[][]} labels
 * @property {{type: string, blob: number}[]} pictures
 * @property {LayoutSpec[]} layouts of picture tokens
 * @property {{record: number, head: number, row: number, col: number}} [opening] the first choice
 *
 * A rectangle of weights, with HIDDEN and PENDING of arrays.js for pairs that have none.
 * @typedef {{rows: number, cols: number, values: Float32Array}} Block
 * @typedef {Block & {max: number, done: number}} Overview
 *
 * The mean weight of each key over some queries, and the number of queries that were computed for it.
 * @typedef {{values: Float32Array, queries: number}} Received
 *
 * The numbers from which one weight is computed.
 * @typedef {object} Steps
 * @property {number[] | null} q null if only weights are known
 * @property {number[] | null} k
 * @property {number[] | null} v
 * @property {number} product
 * @property {number} scale
 * @property {number} bias
 * @property {boolean} hasBias
 * @property {boolean} hidden
 * @property {number} lse
 * @property {number} weight
 *
 * A source of weights, in the page or on a server. Its methods return null for data that is not computed yet, and
 * `changed` is called when it is.
 * @typedef {object} Source
 * @property {number} side of a tile
 * @property {number} squareSide of a square: a small tile, for a few single weights
 * @property {number} maxPool the coarsest pooling of tiles; the overview is coarser
 * @property {boolean} near whether rows are computed in the page, without delay
 * @property {() => void} changed
 * @property {(record: number, b: number, h: number) => Overview | null} overview
 * @property {(record: number, b: number, h: number, pool: number, tr: number, tc: number) => Block | null} tile
 * @property {(record: number, b: number, h: number, tr: number, tc: number) => Block | null} square
 * @property {(record: number, b: number, h: number) => Overview | null} thumbnail an overview in few cells
 * @property {() => boolean} idle whether no data is pending
 * @property {(record: number, b: number, h: number, i: number) => Float32Array | null} row
 * @property {(record: number, b: number, h: number, i: number, j: number) => Steps | null} cell
 * @property {(record: number, b: number, h: number, from: number, to: number) => Received | null} received
 * @property {string} problem a description of the last failure, or ""
 *
 * @typedef {object} State
 * @property {string} view
 * @property {number} record
 * @property {number} head −1 is the mean of all heads
 * @property {number} batch
 * @property {number} row the chosen query
 * @property {number} col the chosen key
 * @property {number} zoom pixels a cell; 0 shows the whole map
 * @property {number} x the key at the left edge
 * @property {number} y the query at the top edge
 * @property {string} scale
 * @property {string} palette
 * @property {string} theme
 * @property {string} top the weight at the end of the colour scale
 * @property {number} aside 1 leaves special tokens and the first token out of the scale, the flow and the text
 * @property {number[] | "all" | null} heads shown in the flow; null is the chosen head alone
 * @property {number} min the least weight that is drawn as a line; −1 draws the strongest lines
 * @property {number} scroll of flow and text, 0 to 1; −1 keeps the chosen query in sight
 * @property {string} by "query" colours the text by the chosen query, "all" by the mean of all queries
 * @property {string} pair the sentences of queries and keys that are kept, such as AB; "" for all
 * @property {string} find the searched text
 * @property {string} side "query" or "key": which of the two a click or an arrow key chooses
 * @property {string} pin the isolated token of the flow, such as q3 or k5; "" for none
 * @property {number} opacity of attention over a picture
 * @property {number} picture the chosen grid of patches of the sequence
 * @property {number} sinks 1 takes out patches that nearly every word attends to
 *
 * @typedef {object} Theme
 * @property {boolean} dark
 * @property {string} page
 * @property {string} surface
 * @property {string} ink
 * @property {string} soft
 * @property {string} line
 * @property {string} accent
 * @property {string} raised
 * @property {string} hidden where a mask hides a pair
 * @property {string} pending where nothing is computed yet
 *
 * The data that all views share.
 * @typedef {object} Scene
 * @property {DocumentInfo} doc
 * @property {Source} source
 * @property {State} state
 * @property {Theme} theme
 * @property {import("./pictures.js").Pictures} pictures
 * @property {(changes: Partial<State>) => boolean} set whether anything changed
 * @property {(box: {x: number, y: number, w: number, h: number}) => void} reveal scrolls a part of the drawing into sight
 * @property {() => {top: number, bottom: number, left: number}} band the visible part of the drawing
 * @property {(text: string) => void} say for screen readers
 * @property {() => number[]} tokensFound the tokens of the chosen side that contain the searched text
 * @property {(step: number) => void} findNext chooses the next match
 * @property {() => void} redraw
 *
 * @typedef {object} View
 * @property {(width: number, height: number) => {width: number, height: number}} size the size it needs of the available one
 * @property {(p: import("./paint.js").Painter, width: number, height: number) => void} draw
 * @property {(x: number, y: number) => void} hover
 * @property {() => void} leave
 * @property {(x: number, y: number) => void} click
 * @property {(x: number, y: number) => void} [open] a double click
 * @property {(dx: number, dy: number) => void} [pan]
 * @property {(factor: number, x: number, y: number) => boolean} [zoom]
 * @property {() => string} [touch] the touch gestures that the browser handles, as a value of CSS touch-action
 * @property {(dx: number, dy: number, x: number, y: number) => boolean} [wheel]
 * @property {(key: string, shift: boolean) => boolean} key whether the key was used
 * @property {() => string} label for screen readers
 * @property {() => string} hint a sentence about clicks, pointing and pinning
 * @property {() => string} [shows] one sentence about the shown data
 * @property {() => {query: string, key: string, weight: string} | null} [reading] the weight under the pointer, or the chosen one
 * @property {() => string} [numbers] further numbers, for screen readers
 */

export {};
