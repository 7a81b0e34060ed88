//! An EVM dev chain: a txpool with geth's rules, blocks, reorgs and faults; in process or as a JSON-RPC server.
