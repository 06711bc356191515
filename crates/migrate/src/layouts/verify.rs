//! `helenus layouts verify`.

use anyhow::{Result, bail};
use clap::Args;
use helenus_catalogue::Layout;
use helenus_console::cells::print_error;

use super::entry::claim;
use super::sweep::doubts;
use super::verdict::{
    Repairing, UNDELETED, Verdict, as_json, check_copies, keep_counts, print_text, verify,
};
use super::work::{Choice, Work};
use crate::catalogue;
use crate::nodes::access::Access;
use crate::nodes::table;

/// Compare a table with its layouts, row by row where they differ.
///
/// Exit codes: 0 they agree, or all that differed has been repaired; 1 they differ, or something failed.
#[derive(Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    choice: Choice,
    /// Write what is missing and delete what is too much, by the times at which it was written
    #[arg(long)]
    repair: bool,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    work: Work,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub async fn run(args: VerifyArgs) -> Result<()> {
    let cluster = args.access.connect().await?;
    args.work.check_nodes(&cluster).await?;
    let name = &args.choice.table;
    let table = table::load(&cluster, name).await?;
    let known = catalogue::read(&cluster, name).await?;
    let chosen = args.choice.among(&known)?;
    check_copies(&cluster, &table, &chosen).await?;
    let claim = args.repair.then(|| claim(&cluster, name, &chosen));
    // A write that the table may still get must not be taken for too much.
    let is_derived = chosen.iter().any(Layout::is_derived);
    let may_delete = args.work.may_delete() && !is_derived;
    let repairing = claim.as_ref().map(|claim| Repairing { claim, may_delete });
    let verified = verify(&cluster, &table, &chosen, &args.work, repairing).await;
    let (compared, verdicts) = match &claim {
        Some(claim) => claim.explained(verified).await?,
        None => verified?,
    };
    if args.repair && is_derived {
        doubts::leave(&cluster, name, &verdicts).await?;
    }
    if let Err(why) = keep_counts(&cluster, name, &compared).await {
        print_error(&why.context("what was counted could not be kept in the catalogue"));
    }
    if args.json {
        println!("{:#}", as_json(name, &compared, &verdicts));
    } else {
        print_text(name, &compared, &verdicts, args.repair);
    }
    let left: u64 = verdicts.iter().map(Verdict::left).sum();
    if left > 0 {
        let undeleted: u64 = verdicts.iter().map(|verdict| verdict.undeleted).sum();
        let advice = match args.repair {
            true if is_derived => {
                "the table is read there until `helenus layouts sweep` has compared them, which deletes what layouts have too \
                 much once no write can be under way"
            }
            true if undeleted > 0 => UNDELETED,
            true => {
                "what is left cannot be repaired by its times: `helenus layouts rebuild` makes it anew"
            }
            false => "`--repair` writes and deletes what differs",
        };
        bail!("{left} rows of layouts of {name} differ; {advice}");
    }
    Ok(())
}
