//! The command that repeats a world: its seed, and the overrides of its specification.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crate::fault::Fault;
use crate::planted::Mistake;
use crate::world_spec::{StoreKind, WorldSpec};

/// Overrides of the specification that a seed decides; `None` leaves a value as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorldOverrides {
    pub nodes: Option<u32>,
    pub lanes: Option<u32>,
    pub endpoints: Option<u32>,
    pub intents: Option<u32>,
    pub storm: Option<Duration>,
    pub people: Option<bool>,
    pub store: Option<StoreKind>,
    /// Only these of the seed's faults.
    pub only: Option<BTreeSet<Fault>>,
    /// The planted bug. A bug of the rules of the model store also decides the store.
    pub mistake: Option<Mistake>,
}

impl WorldOverrides {
    pub fn apply(&self, mut plan: WorldSpec) -> WorldSpec {
        plan.nodes = self.nodes.unwrap_or(plan.nodes);
        plan.lanes = self.lanes.unwrap_or(plan.lanes);
        plan.endpoints = self.endpoints.unwrap_or(plan.endpoints);
        plan.intents = self.intents.unwrap_or(plan.intents);
        plan.storm = self.storm.unwrap_or(plan.storm);
        plan.people = self.people.unwrap_or(plan.people);
        plan.store = self.store.unwrap_or(plan.store);
        if let Some(only) = &self.only {
            plan.odds.retain(|fault, _| only.contains(fault));
        }
        plan.mistake = self.mistake.or(plan.mistake);
        if plan.mistake.is_some_and(Mistake::is_of_model_rules) {
            plan.store = StoreKind::Model;
        }
        plan
    }

    /// The overrides that turn the specification of the seed into this one.
    pub fn of(plan: &WorldSpec) -> WorldOverrides {
        let whole = WorldSpec::of(plan.seed);
        fn differs<T: PartialEq>(here: T, there: T) -> Option<T> {
            (here != there).then_some(here)
        }
        let faults = |plan: &WorldSpec| plan.odds.keys().copied().collect::<BTreeSet<_>>();
        WorldOverrides {
            nodes: differs(plan.nodes, whole.nodes),
            lanes: differs(plan.lanes, whole.lanes),
            endpoints: differs(plan.endpoints, whole.endpoints),
            intents: differs(plan.intents, whole.intents),
            storm: differs(plan.storm, whole.storm),
            people: differs(plan.people, whole.people),
            store: differs(plan.store, whole.store),
            only: differs(faults(plan), faults(&whole)),
            mistake: plan.mistake,
        }
    }
}

/// The options of `gapless sim`.
impl fmt::Display for WorldOverrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = [
            ("nodes", self.nodes.map(u64::from)),
            ("lanes", self.lanes.map(u64::from)),
            ("endpoints", self.endpoints.map(u64::from)),
            ("intents", self.intents.map(u64::from)),
            ("storm", self.storm.map(|storm| storm.as_secs())),
        ];
        for (name, value) in numbers {
            if let Some(value) = value {
                write!(f, " --{name} {value}")?;
            }
        }
        if let Some(people) = self.people {
            write!(f, " --people {people}")?;
        }
        if let Some(store) = self.store {
            write!(f, " --store {}", store.as_str())?;
        }
        if let Some(mistake) = self.mistake {
            write!(f, " --mistake {}", mistake.name())?;
        }
        if let Some(only) = &self.only {
            let names: Vec<&str> = only.iter().map(|fault| fault.as_str()).collect();
            write!(f, " --only {}", if names.is_empty() { "none".to_owned() } else { names.join(",") })?;
        }
        Ok(())
    }
}

/// The command that repeats this world.
pub fn command(plan: &WorldSpec) -> String {
    format!("gapless sim --seed {}{}", plan.seed, WorldOverrides::of(plan))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_repeats_the_world() {
        let mut plan = WorldSpec::of(7);
        assert_eq!(command(&plan), "gapless sim --seed 7");
        plan.nodes = 1;
        plan.mistake = Some(Mistake::NoEpoch);
        plan.odds.retain(|fault, _| matches!(fault, Fault::Reorg | Fault::AnswerLost));
        let changes = WorldOverrides::of(&plan);
        assert_eq!(changes.apply(WorldSpec::of(7)), plan);
        assert!(command(&plan).starts_with("gapless sim --seed 7 --nodes 1 --mistake no_epoch --only "));
    }
    #[test]
    fn bug_of_the_model_rules_gets_the_model_store() {
        let with = |mistake| {
            let changes = WorldOverrides { mistake, store: Some(StoreKind::Sqlite), ..WorldOverrides::default() };
            changes.apply(WorldSpec::of(7))
        };
        for mistake in [Mistake::ExistsFence, Mistake::KeepToken, Mistake::NoEpoch] {
            let plan = with(Some(mistake));
            assert_eq!(plan.store, StoreKind::Model, "{}", mistake.name());
            assert_eq!(WorldOverrides::of(&plan).apply(WorldSpec::of(7)), plan);
        }
        assert_eq!([None, Some(Mistake::MinedIsFinal)].map(|other| with(other).store), [StoreKind::Sqlite; 2]);
    }
}
