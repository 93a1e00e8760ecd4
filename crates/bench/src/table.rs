//! Figures: the results with their floor and their target, as a table for people or as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// The target of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Target {
    /// At most this many times the floor.
    RatioAtMost(f64),
    /// At least this many times the floor.
    RatioAtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// At most this much more than the floor.
    MoreAtMost(f64),
}

/// One figure, from all rounds.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Its name.
    pub(crate) name: String,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// The floor, round by round; empty if the target is absolute.
    pub(crate) beside: Vec<f64>,
    /// The values of Portolan, round by round.
    pub(crate) ours: Vec<f64>,
    /// The target; absent if the figure is only shown.
    pub(crate) target: Option<Target>,
}

/// Everything that was measured.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// The figures.
    pub(crate) rows: Vec<Row>,
    /// Texts that were lost, doubled, out of order, or did not come: never allowed, whatever the figures.
    pub(crate) faults: Vec<String>,
}

/// The median; nothing if there are no values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

/// The percentile, converted from nanoseconds to microseconds.
pub(crate) fn quantile(nanoseconds: &mut [u64], share: f64) -> f64 {
    if nanoseconds.is_empty() {
        return f64::NAN;
    }
    nanoseconds.sort_unstable();
    nanoseconds[((nanoseconds.len() - 1) as f64 * share) as usize] as f64 / 1e3
}

impl Row {
    /// The ratio to the floor: the median over the rounds, each compared within itself, because a machine is rarely the
    /// same in two rounds.
    fn ratio(&self) -> Option<f64> {
        let ratios: Vec<_> = self.ours.iter().zip(&self.beside).map(|(ours, beside)| ours / beside).collect();
        median(&ratios)
    }

    /// How much more than the floor, each round compared within itself.
    fn excess(&self) -> Option<f64> {
        let more: Vec<_> = self.ours.iter().zip(&self.beside).map(|(ours, beside)| ours - beside).collect();
        median(&more)
    }

    fn is_met(&self) -> Option<bool> {
        Some(match self.target? {
            Target::RatioAtMost(most) => self.ratio()? <= most,
            Target::RatioAtLeast(least) => self.ratio()? >= least,
            Target::AtMost(most) => median(&self.ours)? <= most,
            Target::MoreAtMost(most) => self.excess()? <= most,
        })
    }

    fn cells(&self) -> [String; 6] {
        let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), shown);
        let (target, verdict) = match self.target {
            None => ("-".to_owned(), ""),
            Some(target) => {
                let target = match target {
                    Target::RatioAtMost(most) => format!("<= {most}x"),
                    Target::RatioAtLeast(least) => format!(">= {least}x"),
                    Target::AtMost(most) => format!("<= {}", shown(most)),
                    Target::MoreAtMost(most) => format!("<= +{}", shown(most)),
                };
                (target, if self.is_met() == Some(true) { "met" } else { "MISSED" })
            }
        };
        let ratio = self.ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}x"));
        [
            format!("{} ({})", self.name, self.unit),
            figure(median(&self.beside)),
            figure(median(&self.ours)),
            ratio,
            target,
            verdict.to_owned(),
        ]
    }
}

/// A figure for people: three digits that matter.
fn shown(value: f64) -> String {
    match value.abs() {
        100.0.. => {
            let digits = format!("{value:.0}");
            let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |rest| ("-", rest));
            let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
            format!("{sign}{}", groups.join(","))
        }
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

impl Report {
    /// Adds the faults of a check.
    pub(crate) fn fault(&mut self, what: String) {
        self.faults.push(what);
    }

    /// As a table, in Markdown.
    pub(crate) fn table(&self) -> String {
        let head = ["", "floor", "Portolan", "ratio", "target", ""].map(str::to_owned);
        let rows: Vec<_> = self.rows.iter().map(Row::cells).collect();
        let width = |column: usize| {
            let cells = rows.iter().chain([&head]).map(|cells| cells[column].len());
            cells.max().unwrap_or_default()
        };
        let widths = [0, 1, 2, 3, 4, 5].map(width);
        let mut out = String::new();
        let mut line = |cells: &[String; 6]| {
            let _ = write!(out, "| {:<1$} |", cells[0], widths[0]);
            for (cell, width) in cells.iter().zip(widths).skip(1) {
                let _ = write!(out, " {cell:>width$} |");
            }
            out.push('\n');
        };
        line(&head);
        line(&widths.map(|width| "-".repeat(width)));
        rows.iter().for_each(&mut line);
        out
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let rows: Vec<_> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "name": row.name, "unit": row.unit, "floor": median(&row.beside), "portolan": median(&row.ours),
                    "ratio": row.ratio(), "met": row.is_met(),
                    "rounds": {"floor": row.beside, "portolan": row.ours},
                })
            })
            .collect();
        json!({"rows": rows, "faults": self.faults})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_is_compared_with_its_own_floor() {
        let row = Row {
            name: "latency".into(),
            unit: "us",
            beside: vec![100.0, 10.0, 200.0],
            ours: vec![120.0, 11.0, 300.0],
            target: Some(Target::RatioAtMost(1.3)),
        };
        assert_eq!(row.ratio(), Some(1.2));
        let report = Report { rows: vec![row], faults: vec![] };
        assert_eq!(
            report.table(),
            "|              | floor | Portolan | ratio |  target |     |\n\
             | ------------ | ----- | -------- | ----- | ------- | --- |\n\
             | latency (us) |   100 |      120 | 1.20x | <= 1.3x | met |\n"
        );
    }

    #[test]
    fn a_target_may_limit_how_much_is_added_to_the_floor() {
        let row = |ours: f64| Row {
            name: "holder".into(),
            unit: "us",
            beside: vec![200.0, 100.0, 300.0],
            ours: vec![ours + 100.0, ours, ours + 200.0],
            target: Some(Target::MoreAtMost(50.0)),
        };
        assert_eq!([row(150.0), row(151.0)].map(|row| row.is_met()), [Some(true), Some(false)]);
        assert_eq!(row(150.0).cells()[4..], ["<= +50.0".to_owned(), "met".to_owned()]);
    }

    #[test]
    fn figures_are_shown_with_three_significant_digits() {
        assert_eq!([1_234_567.8, -123.4, 12.34, 0.123].map(shown), ["1,234,568", "-123", "12.3", "0.12"]);
    }
}
