//! Requests about a table with layouts, through a whole engine, with a client and a node that say what the
//! test has them say.

mod asked;
mod fencing;
mod reads;
mod rules;
mod schema;
mod sorted;
mod writes;
