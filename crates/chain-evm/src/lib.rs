//! EVM chains for Gapless, by alloy: endpoints, fees, signers.
