// @ts-check
/**
 * The shapes of the data that the viewer reads; see payload.py and encoding.py, which write it.
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
 * @property {ArrayRef} [middle] what all keys of a head share; k holds what each adds to it
 * @property {ArrayRef} [lse]
 * @property {number} [scale]
 * @property {ArrayRef | null} [v] of the additive score v·tanh(q + k)
 * @property {MaskSpec | null} [mask]
 * @property {BiasSpec | null} [bias]
 * @property {ArrayRef} [codes] stored weights, counted in steps of each row's largest
 * @property {ArrayRef} [tops]
 * @property {number} [steps]
 * @property {number} [heads] of which this is the mean
 * @property {SourceSpec} [of]
 * @property {number[]} [shape] of the source inside
 * @property {number[]} [image] rows and columns of a picture that was cut into windows
 * @property {number} [side] of a window
 * @property {number} [shift] by which the picture was rolled before
 *
 * @typedef {object} RecordInfo
 * @property {string} name
 * @property {number | null} layer
 * @property {string} kind
 * @property {string | null} [role] "encoder", "decoder" or "cross" of a model that has all of them
 * @property {number[]} shape b, h, q, k
 * @property {boolean} signed whether some weights are negative
 * @property {number[] | null} heads what the model calls them; null where they are all
 * @property {number[] | null} queryTokens
 * @property {number[] | null} keyTokens
 * @property {number[] | null} queryGrid
 * @property {number[] | null} keyGrid
 * @property {number} queryExtra
 * @property {number} keyExtra
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
 * @property {{record: number, head: number, row: number, col: number}} [opening] what to begin with
 *
 * A rectangle of weights, with HIDDEN and PENDING of arrays.js for pairs that have none.
 * @typedef {{rows: number, cols: number, values: Float32Array}} Block
 * @typedef {Block & {max: number, done: number}} Overview
 *
 * The mean weight that each key gets from some queries: all from…to, or as many as are worth the wait.
 * @typedef {{values: Float32Array, queries: number}} Received
 *
 * How one weight comes about.
 * @typedef {object} Steps
 * @property {number[] | null} q null where only weights are known
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
 * Where weights come from: computed here, or asked of a server. A method gives null for what is not there yet, and
 * calls `changed` when it is.
 * @typedef {object} Source
 * @property {number} side of a tile
 * @property {number} squareSide of a square: a small tile, for a few single weights
 * @property {number} maxPool the coarsest tiles it makes; beyond that there is the overview
 * @property {boolean} near whether rows are computed here, at once
 * @property {() => void} changed
 * @property {(record: number, b: number, h: number) => Overview | null} overview
 * @property {(record: number, b: number, h: number, pool: number, tr: number, tc: number) => Block | null} tile
 * @property {(record: number, b: number, h: number, tr: number, tc: number) => Block | null} square
 * @property {(record: number, b: number, h: number) => Overview | null} thumbnail an overview in few cells
 * @property {() => boolean} idle whether nothing that a drawing asked for is still to come
 * @property {(record: number, b: number, h: number, i: number) => Float32Array | null} row
 * @property {(record: number, b: number, h: number, i: number, j: number) => Steps | null} cell
 * @property {(record: number, b: number, h: number, from: number, to: number) => Received | null} received
 * @property {string} problem what went wrong, in words; "" where nothing did
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
 * @property {string} top what the brightest colour stands for
 * @property {number} aside 1 leaves out marks and the first token: of the scale, of the flow and of the text
 * @property {number[] | "all" | null} heads shown in the flow; null is the chosen head alone
 * @property {number} min the least weight that is drawn as a line; −1 draws the strongest lines
 * @property {number} scroll of flow and text, 0 to 1; −1 keeps the chosen query in sight
 * @property {string} by what colours the text: the chosen "query", or "all"
 * @property {string} pair sentences of queries and keys that are left, such as AB; "" for all
 * @property {string} find a text that is looked for in the tokens
 * @property {string} side "query" or "key": which of the two a click or an arrow key chooses
 * @property {string} pin the token that stands alone in the flow, q3 or k5; "" for none
 * @property {number} opacity of attention over a picture
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
 * What all views know.
 * @typedef {object} Scene
 * @property {DocumentInfo} doc
 * @property {Source} source
 * @property {State} state
 * @property {Theme} theme
 * @property {import("./pictures.js").Pictures} pictures
 * @property {(changes: Partial<State>) => boolean} set whether anything changed
 * @property {(box: {x: number, y: number, w: number, h: number}) => void} reveal scrolls a part of the drawing into sight
 * @property {() => {top: number, bottom: number}} band of the drawing that is in sight
 * @property {(text: string) => void} say for screen readers
 * @property {() => number[]} tokensFound of the side that is chosen, that hold the text that is looked for
 * @property {(step: number) => void} findNext chooses the next of them
 * @property {() => void} redraw
 *
 * @typedef {object} View
 * @property {(width: number, height: number) => {width: number, height: number}} size what it needs of the room it has
 * @property {(p: import("./paint.js").Painter, width: number, height: number) => void} draw
 * @property {(x: number, y: number) => void} hover
 * @property {() => void} leave
 * @property {(x: number, y: number) => void} click
 * @property {(x: number, y: number) => void} [open] a double click
 * @property {(dx: number, dy: number) => void} [pan]
 * @property {(factor: number, x: number, y: number) => boolean} [zoom]
 * @property {() => string} [touch] which gestures of fingers are the browser's, as CSS names them
 * @property {(dx: number, dy: number, x: number, y: number) => boolean} [wheel]
 * @property {(key: string, shift: boolean) => boolean} key whether it was used
 * @property {() => string} label for screen readers
 * @property {() => string} hint what can be clicked, pointed at and pinned
 * @property {() => string} [shows] what of all there is, in one sentence
 * @property {() => {query: string, key: string, weight: string} | null} [reading] what is pointed at, or chosen
 * @property {() => string} [numbers] what more there is to read, at length
 */

export {};
