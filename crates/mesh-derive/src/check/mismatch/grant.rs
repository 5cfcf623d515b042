//! What a grant lacks, and what of it leads nowhere.

use mesh_model::{Filter, ModuleName, Principal};

/// A grant that is not what whoever has it does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum GrantFault {
    /// What it always says would be refused.
    #[error("{principal}: may not publish {filter}, which it always does; grant it")]
    CannotSay {
        /// Whose grant.
        principal: Principal,
        /// What.
        filter: Filter,
    },
    /// What it asks would be answered where it does not hear it.
    #[error(
        "{principal}: may not subscribe its inbox {filter}, so nothing it asks is answered; grant it"
    )]
    NoInbox {
        /// Whose grant.
        principal: Principal,
        /// Its inbox.
        filter: Filter,
    },
    /// A module's instance may less than the module.
    #[error(
        "{principal}: may not use {filter}, which module/{module} may; give it all that its module has"
    )]
    LessThanModule {
        /// Whose grant.
        principal: Principal,
        /// Its module.
        module: ModuleName,
        /// Which entry of the module's.
        filter: Filter,
    },
    /// A module's instance may more than the module.
    #[error(
        "{principal}: may use {filter}, which module/{module} may not; give it what its module has and an inbox"
    )]
    MoreThanModule {
        /// Whose grant.
        principal: Principal,
        /// Its module.
        module: ModuleName,
        /// Which entry.
        filter: Filter,
    },
    /// Whatever was not declared is in it as well.
    #[error(
        "{principal}: may publish {filter}, which is more subjects than one; name each that it was declared to say"
    )]
    ManySubjects {
        /// Whose grant.
        principal: Principal,
        /// Which entry.
        filter: Filter,
    },
    /// What is published there is stored by no stream and settles nothing.
    #[error(
        "{principal}: may publish {filter}, and nobody hears it; derive the stream or consumer it is for, or take it out \
         of the grant"
    )]
    Unheard {
        /// Whose grant.
        principal: Principal,
        /// Which entry.
        filter: Filter,
    },
    /// Nothing is delivered there, and nobody answers.
    #[error(
        "{principal}: may subscribe {filter}, where nothing is delivered and nobody is answered; take it out of the grant"
    )]
    HearsNothing {
        /// Whose grant.
        principal: Principal,
        /// Which entry.
        filter: Filter,
    },
}
