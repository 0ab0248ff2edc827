// Every file below adds one room to Q; the builder puts them in one script, in the order of the data's flow.
const Q = {};
